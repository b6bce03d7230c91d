#!/bin/sh
# Fetches servers of other versions than the machine's own, and runs the tests of stores on each.
#
# The servers are packages of other Debian suites, unpacked into `target/servers` with their
# libraries. The loader of the libc among these starts them. Nothing is installed, and no rights are
# needed.
set -eu
cd "$(dirname "$0")/.."
servers=$PWD/target/servers

# Packages that every server needs, under the same name in every suite; those of Redis; of PostgreSQL.
libraries="libatomic1 libc6 libcap2 libgcc-s1 libstdc++6 libsystemd0 libzstd1 zlib1g"
for_redis="libjemalloc2 liblzf1"
for_postgres="libaudit1 libcap-ng0 libcom-err2 libgssapi-krb5-2 libk5crypto3 libkeyutils1 libkrb5-3
    libkrb5support0 libldap2 liblz4-1 liblzma5 libpam0g libpcre2-8-0 libpq5 libsasl2-2 libselinux1
    libssl3t64 libuuid1"

codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
source=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' \
    'Created-By: Packages' | sed -n "s/^$codename main //p" | head -n 1)
: "${source:?no package source for main in /etc/apt: this machine is no Debian}"

# unpack DIRECTORY SUITES PACKAGE...: a package of several suites comes from the first of them.
unpack() {
    draft=$1 suites=$2
    shift 2
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
}

# launch SCRIPT UP PROGRAM: makes a script that starts a program as if it were the script. Both are
# below a directory with `files`, which is UP from the directory of the script.
launch() {
    cat >"$1" <<LAUNCHER
#!/bin/sh
here=\$(CDPATH= cd -- "\$(dirname -- "\$0")" && pwd)
home=\$(CDPATH= cd -- "\$here/$2" && pwd)
libraries=\$(echo "\$home"/files/lib/*-linux-gnu "\$home"/files/usr/lib/*-linux-gnu | tr ' ' ':')
for loader in "\$home"/files/lib/*/ld-linux* "\$home"/files/usr/lib/*/ld-linux*; do
    [ -e "\$loader" ] && exec "\$loader" --argv0 "\$here/\$(basename -- "\$0")" \\
        --library-path "\$libraries" "\$home/files/$3" "\$@"
done
LAUNCHER
    chmod +x "$1"
}

# Suites get newer versions, and the name of a directory must match its contents.
check() {
    "$1" --version | grep -F "$2" || {
        echo "$3 has another version by now: change $0"
        exit 1
    }
}

# redis PROGRAM VERSION SUITES PACKAGE...: Redis or Valkey.
redis() {
    program=$1-server version=$2 suites=$3 home=$servers/$1-$2 draft=$servers/.$1-$2
    shift 3
    "$home/$program" --version 2>&1 | grep -F "v=$version." && return
    rm -rf "$home" "$draft"
    unpack "$draft" "$suites" "$@" $for_redis
    launch "$draft/$program" . "usr/bin/$program"
    check "$draft/$program" "v=$version." "$suites"
    mv "$draft" "$home"
}

# postgres VERSION SUITE PACKAGE...: its programs find each other and their files by their place.
postgres() {
    version=$1 suite=$2 home=$servers/postgres-$1 draft=$servers/.postgres-$1
    place=files/usr/lib/postgresql/$1
    shift 2
    "$home/$place/bin/postgres" --version 2>&1 | grep -F ") $version." && return
    rm -rf "$home" "$draft"
    unpack "$draft" "$suite" "postgresql-$version" "postgresql-client-$version" "$@" $for_postgres
    mv "$draft/$place/bin" "$draft/$place/programs"
    mkdir "$draft/$place/bin"
    for program in initdb pg_basebackup pg_dump pg_isready postgres psql; do
        launch "$draft/$place/bin/$program" ../../../../../.. \
            "usr/lib/postgresql/$version/programs/$program"
    done
    check "$draft/$place/bin/postgres" ") $version." "$suite"
    mv "$draft" "$home"
}

# The promised versions that Debian has, as of 2026.
redis redis 8.0 trixie redis-server redis-tools libssl3t64
redis valkey 8.0 'bookworm bookworm-backports' \
    valkey-server valkey-tools libgcrypt20 libgpg-error0 liblz4-1 liblzma5 libssl3
redis valkey 9.1 sid valkey-server valkey-tools libssl3t64
postgres 17 trixie libicu76 libxml2
postgres 18 sid libicu78 libnuma1 liburing2 libxml2-16

failed=
for program in "$servers"/*/*-server; do
    LEASEHOLD_TEST_SERVER=$program cargo test --no-fail-fast --all-features --locked \
        --package leasehold-tests --package leasehold-data --tests || failed="$failed $program"
done
for programs in "$servers"/postgres-*/files/usr/lib/postgresql/*/bin; do
    export LEASEHOLD_TEST_POSTGRES="$programs"
    tests="cargo test --all-features --locked --package leasehold-tests --test"
    $tests postgres && $tests differential postgres:: || failed="$failed $programs"
done
[ -z "$failed" ] || { echo "failed on:$failed"; exit 1; }
