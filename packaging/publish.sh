#!/bin/sh
# Publishes all packages on crates.io; cargo begins with those that others need, and takes each from
# its archive: publish.sh check [+TOOLCHAIN] | dry-run | publish
#
# check compiles the published packages with the dependencies that users get, and the oldest compiler.
set -eu
cd "$(dirname "$0")/.."
packages=
for package in leasehold-core leasehold leasehold-data leasehold-conformance leasehold-cli; do
    packages="$packages --package $package"
done
# The words of $packages are meant to be words.
# shellcheck disable=SC2086
case ${1:-} in
check) cargo ${2:-} check --locked --all-features --target-dir target/published $packages ;;
dry-run) cargo publish --dry-run --locked --allow-dirty --target-dir target/published $packages ;;
publish) cargo publish --locked --target-dir target/published $packages ;;
*) sed -n '2,5s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
