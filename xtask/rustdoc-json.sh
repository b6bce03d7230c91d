#!/bin/sh
# rustdoc that may write JSON, which is unstable. If RUSTC_BOOTSTRAP were set for cargo instead, cargo
# would build every dependency anew.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
