#!/bin/bash
# rustc for the packages of this workspace, with what only its tests compile in: the named bugs and
# the targets of fuzzing. As RUSTC_WORKSPACE_WRAPPER it leaves dependencies as they are built anyway.
# bash, because other shells drop variables such as `CARGO_BIN_EXE_flash-sale`.
exec "$@" --cfg leasehold_test_bugs --cfg fuzzing
