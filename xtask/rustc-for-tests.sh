#!/bin/sh
# rustc for the packages of this workspace, with what only its tests compile in: the named bugs and
# the targets of fuzzing. As RUSTC_WORKSPACE_WRAPPER it leaves dependencies as they are built anyway.
exec "$@" --cfg leasehold_test_bugs --cfg fuzzing
