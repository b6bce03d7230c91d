#!/bin/sh
# Puts programs of this release and of another one into one queue, where each looks at the other's
# locks. Compares the libraries of both: the version must change as semver requires.
# releases.sh [REVISION], by default of the last tag. The other release is built from its revision,
# in target/releases.
set -eu
cd "$(dirname "$0")/.."
if [ $# -gt 0 ]; then
    revision=$1
elif ! revision=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null); then
    echo 'left out: a fleet of two releases: there is no tag yet, so this is the first release'
    exit 0
fi
commit=$(git rev-parse --verify --quiet "$revision^{commit}") || {
    echo "there is no revision $revision in this repository" >&2
    exit 1
}
into=$PWD/target/releases/$commit
if ! [ -x "$into/leasehold" ]; then
    rm -rf "$into"
    mkdir -p "$into/source"
    git archive "$commit" | tar --extract --directory "$into/source"
    cargo build --locked --package leasehold-cli --bin leasehold \
        --manifest-path "$into/source/Cargo.toml" --target-dir target/releases/build
    cp target/releases/build/debug/leasehold "$into/leasehold"
fi
echo "another release: $revision ($commit)"
LEASEHOLD_OTHER_RELEASE=$into/leasehold cargo test --locked --package leasehold-cli \
    --test command -- releases --nocapture

tools=$PWD/target/tools
cargo install --quiet --locked --root "$tools" cargo-semver-checks@0.49.0
"$tools/bin/cargo-semver-checks" semver-checks --baseline-rev "$commit" --package leasehold-core \
    --package leasehold --package leasehold-data --package leasehold-conformance
