#!/bin/sh
# Makes the wheels of `leasehold-lock` and of the command, `leasehold-cli`, for this kind of machine, and
# uses both in a fresh environment: wheels.sh [DIRECTORY], by default target/wheels.
#
# zig, which comes as a Python package, links them with the oldest C library that a wheel may ask for.
# The library's wheel for musl is made but not tried: only a Python of a system with musl loads it.
set -eu
cd "$(dirname "$0")/.."
out=${1:-$PWD/target/wheels} tools=$PWD/target/tools/maturin
machine=$(uname -m)
[ "$(uname -s)" != Linux ] || packaging/apt.sh python3-venv python3 -c 'import ensurepip'
[ -x "$tools/bin/maturin" ] || python3 -m venv "$tools"
"$tools/bin/pip" install --quiet --disable-pip-version-check \
    "$(grep '^maturin==' python/requirements-test.txt)" wheel==0.48.0 ziglang==0.17.1
export PATH="$tools/bin:$PATH"
rm -rf "$out"
mkdir -p "$out"

# lock WORD...: makes the wheel of the library.
lock() { maturin build --release --locked --manifest-path python/Cargo.toml --out "$out" "$@"; }
# command WORD...: makes the wheel of the command.
command_alone() { (cd packaging/wheel && maturin build --release --locked --out "$out" "$@"); }

case $(uname -s) in
Linux)
    lock --zig --target "$machine-unknown-linux-gnu" --compatibility manylinux_2_17
    lock --zig --target "$machine-unknown-linux-musl" --compatibility musllinux_1_2
    # The program is static, so it runs on every Linux: its wheel says so.
    rustup target add "$machine-unknown-linux-musl"
    command_alone --zig --target "$machine-unknown-linux-musl" --compatibility musllinux_1_2
    wheel tags --remove "--platform-tag=+manylinux_2_17_$machine" "$out"/leasehold_cli-*.whl
    ;;
*)
    lock
    command_alone
    ;;
esac
# A free-threaded Python loads no wheel for all versions, so it gets a separate wheel, if such a Python
# is installed.
if python3.14t --version >/dev/null 2>&1; then
    lock --interpreter python3.14t
else
    echo 'left out: the wheel for free-threaded Python: there is no python3.14t'
fi
maturin sdist --manifest-path python/Cargo.toml --out "$out"

# Only the wheels are used from here on, as by a user.
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
python3 -m venv "$fresh/venv"
"$fresh/venv/bin/pip" install --quiet --disable-pip-version-check --no-index --find-links "$out" \
    leasehold-lock leasehold-cli
cd "$fresh"
export LEASEHOLD_STORE="file:$fresh/locks.db"
# The command holds a lock that the library then finds taken.
venv/bin/leasehold run wheel -- venv/bin/python -c '
from leasehold import Client
client = Client()
assert client.lock("wheel").try_acquire() is None
with client.lock("another") as guard:
    assert guard.token'
(cd "$out" && sha256sum -- *)
