#!/bin/bash
# rustc for the packages of this workspace, as clippy runs it, so that one build compiles and checks:
# what is warned of is an error. It adds what only tests compile in: the named bugs and the targets
# of fuzzing. As RUSTC_WORKSPACE_WRAPPER it leaves dependencies as they are built anyway.
# bash, because other shells drop variables such as `CARGO_BIN_EXE_flash-sale`.
exec clippy-driver "$@" --deny warnings --cfg leasehold_test_bugs --cfg fuzzing
