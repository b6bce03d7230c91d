#!/bin/sh
# rustdoc as `cargo test --doc` runs it: it tests the examples of a library, and then writes the
# documentation of that library as JSON. `cargo doc` would check every dependency anew.
# JSON is unstable. If RUSTC_BOOTSTRAP were set for cargo, cargo would build every dependency anew.
set -eu
rustdoc "$@"
is_left_out=
for word; do
    shift
    case $word$is_left_out in
    --test) ;;
    --test-run-directory) is_left_out=yes ;;
    *yes) is_left_out= ;;
    *) set -- "$@" "$word" ;;
    esac
done
RUSTC_BOOTSTRAP=1 exec rustdoc "$@" --deny warnings -Z unstable-options --output-format json \
    --output "$LEASEHOLD_JSON"
