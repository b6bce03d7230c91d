#!/bin/bash
# rustc for the packages of this workspace, as clippy runs it, so that one build compiles and checks:
# warnings are errors. It adds the code for tests: the named bugs and the targets of fuzzing. As
# RUSTC_WORKSPACE_WRAPPER it does not change the build of dependencies.
# bash, because other shells drop variables such as `CARGO_BIN_EXE_flash-sale`.
exec clippy-driver "$@" --deny warnings --cfg leasehold_test_bugs --cfg fuzzing
