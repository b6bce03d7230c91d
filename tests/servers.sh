#!/bin/sh
# Fetches servers of other versions than the machine's own, and runs the tests of stores on each.
#
# They are packages of other suites of Debian, unpacked into `target/servers` with their libraries,
# and started through the loader of the libc among these. Nothing is installed, and no rights are
# needed.
set -eu
cd "$(dirname "$0")/.."
servers=$PWD/target/servers

# What every server needs, under the same name in every suite.
libraries="libatomic1 libc6 libcap2 libgcc-s1 libjemalloc2 liblzf1 libstdc++6 libsystemd0 libzstd1
    zlib1g"

codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
source=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' \
    'Created-By: Packages' | sed -n "s/^$codename main //p" | head -n 1)
: "${source:?no package source for main in /etc/apt: this machine is no Debian}"

# fetch PROGRAM VERSION SUITES PACKAGE...: what is in several suites comes from the first.
fetch() {
    program=$1-server version=$2 suites=$3 home=$servers/$1-$2 draft=$servers/.$1-$2
    shift 3
    "$home/$program" --version 2>&1 | grep -F "v=$version." && return
    rm -rf "$home" "$draft"
    mkdir -p "$draft/apt/lists/partial" "$draft/apt/cache/archives/partial"
    for suite in $suites; do echo "deb $source $suite main"; done >"$draft/apt/sources.list"
    # Separate lists and a separate cache: the user that apt would change to may not write here.
    apt="apt-get --quiet=2 --option=Dir::Etc::sourcelist=$draft/apt/sources.list
        --option=Dir::Etc::sourceparts=- --option=Dir::State::lists=$draft/apt/lists
        --option=Dir::Cache=$draft/apt/cache --option=APT::Sandbox::User=root"
    $apt update --error-on=any
    (cd "$draft/apt" && $apt download "$@" $libraries)
    for package in "$draft"/apt/*.deb; do dpkg --extract "$package" "$draft/files"; done
    rm -r "$draft/apt"
    cat >"$draft/$program" <<'LAUNCHER'
#!/bin/sh
home=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
program=$(basename -- "$0")
libraries=$(echo "$home"/files/lib/*-linux-gnu "$home"/files/usr/lib/*-linux-gnu | tr ' ' ':')
for loader in "$home"/files/lib/*/ld-linux* "$home"/files/usr/lib/*/ld-linux*; do
    [ -e "$loader" ] && exec "$loader" --argv0 "$program" --library-path "$libraries" \
        "$home/files/usr/bin/$program" "$@"
done
LAUNCHER
    chmod +x "$draft/$program"
    # Suites move on, and a directory must not lie about what is in it.
    "$draft/$program" --version | grep -F "v=$version." || {
        echo "$suites has another version by now: change $0"
        exit 1
    }
    mv "$draft" "$home"
}

# What Debian has of the versions that are promised, as of 2026.
fetch redis 8.0 trixie redis-server redis-tools libssl3t64
fetch valkey 8.0 'bookworm bookworm-backports' \
    valkey-server valkey-tools libgcrypt20 libgpg-error0 liblz4-1 liblzma5 libssl3
fetch valkey 9.1 sid valkey-server valkey-tools libssl3t64

failed=
for program in "$servers"/*/*-server; do
    LEASEHOLD_TEST_SERVER=$program cargo test --no-fail-fast --all-features --locked \
        --package leasehold-tests --package leasehold-data --tests || failed="$failed $program"
done
[ -z "$failed" ] || { echo "failed on:$failed"; exit 1; }
