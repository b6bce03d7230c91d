#!/bin/sh
# rustdoc that may write JSON, which is unstable. Told to cargo instead, RUSTC_BOOTSTRAP would have
# it build every dependency anew.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
