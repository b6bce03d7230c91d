#!/bin/sh
# Checks that the library compiles for systems without a test machine: with `redis`, and for `memory:`,
# on Windows and macOS, where `file` must be refused with a reason. Systems with an emulator also run the
# conformance suite, in memory and on a Redis server of this machine: Windows under wine, Linux on aarch64
# under qemu, where the command is tried as well. The workflow has real machines for Windows and macOS.
# gcc compiles the C code of dependencies for Windows, and zig, which comes as a Python package, for the
# others. A target without its compiler, emulator or standard library is left out.
set -eu
cd "$(dirname "$0")/.."
tools=$PWD/target/tools platforms=$PWD/target/platforms
features=redis,metrics,serde,tracing

left_out() { echo "left out: $1: $2"; }

# check TARGET: the library and its tests, with all features that every system has.
check() {
    echo "== $1"
    cargo check --locked --package leasehold --no-default-features --features "$features" \
        --target "$1" --target-dir "$platforms"
}

# Whether the standard library of a target is installed or can be installed.
has() { rustup target add "$1" >/dev/null 2>&1 || { left_out "$1" 'no standard library' && false; }; }

# has_program TARGET PROGRAM PACKAGE: whether a program is installed or can be installed.
has_program() {
    said=$(packaging/apt.sh "$3" which "$2" 2>&1) || { left_out "$1" "$said" && return 1; }
}

# `file` on a system that is no Unix is refused in one sentence.
refused() {
    said=$(cargo check --locked --package leasehold --no-default-features --features file \
        --target "$1" --target-dir "$platforms" 2>&1 || true)
    echo "$said" | grep --quiet 'the file store is for Unix' || {
        echo "$said" | tail -n 20
        echo "$1: the feature \`file\` is not refused in words"
        exit 1
    }
}

# conforms TARGET EMULATOR: runs the conformance suite, in memory and on a server of this machine.
conforms() {
    tests='--test memory'
    if has_program "$1" redis-server redis-server; then
        tests="$tests --test server"
        port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
        redis-server --port "$port" --bind 127.0.0.1 --save '' --loglevel warning &
        server=$!
        trap 'kill $server' EXIT
        timeout 60 sh -c "until redis-cli -p $port ping >/dev/null 2>&1; do sleep 0.1; done"
    fi
    # The words of $tests are meant to be words.
    # shellcheck disable=SC2086
    env "CARGO_TARGET_$(echo "$1" | tr a-z- A-Z_)_RUNNER=$2" \
        "LEASEHOLD_CONFORMANCE_STORE=redis://127.0.0.1:${port-}" \
        cargo test --locked --package leasehold-conformance $tests --target "$1" \
        --target-dir "$platforms"
    [ -z "${server-}" ] || kill "$server"
    trap - EXIT
    unset port server
}

# compiler_of TARGET NAME: makes zig compile C for a target; NAME is zig's name of the target.
compiler_of() {
    packaging/apt.sh python3-venv python3 -c 'import ensurepip' || true
    [ -x "$tools/zig/bin/python" ] ||
        { python3 -m venv "$tools/zig" && "$tools/zig/bin/pip" install --quiet ziglang==0.17.1; } || true
    "$tools/zig/bin/python" -m ziglang version >/dev/null 2>&1 ||
        { left_out "$1" 'zig cannot be had' && return 1; }
    # Drops the words that name the target, and names it as zig does. Unless it is told not to, zig adds
    # checks to C code, and their library is not linked.
    cat >"$tools/zig/$2" <<'END'
#!/bin/sh
for word; do
    shift
    case $word in
    --target=* | -arch | arm64 | -mmacosx-version-min=* | -isysroot | */MacOSX*.sdk) ;;
    *) set -- "$@" "$word" ;;
    esac
done
exec "$(dirname "$0")/bin/python" -m ziglang cc -fno-sanitize=undefined \
    -target "$(basename "$0")" "$@"
END
    chmod +x "$tools/zig/$2"
    variable=$(echo "$1" | tr - _)
    export "CC_$variable=$tools/zig/$2" "AR_$variable=ar"
}

windows=x86_64-pc-windows-gnu
if has $windows && has_program $windows x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64; then
    check $windows
    refused $windows
    if has_program $windows wine wine; then
        # Wine 8 has no bcryptprimitives.dll, from which Rust takes its random numbers. This makes one
        # in the directory of the programs, which calls the older function.
        mkdir -p "$platforms/$windows/debug/deps"
        x86_64-w64-mingw32-gcc -shared -x c -o "$platforms/$windows/debug/deps/bcryptprimitives.dll" - \
            -ladvapi32 <<'END'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) {
    return SystemFunction036(data, size);
}
END
        export WINEDEBUG=-all "WINEPREFIX=$PWD/target/wine"
        conforms $windows wine
    fi
fi

macos=aarch64-apple-darwin
if has $macos && compiler_of $macos aarch64-macos; then
    SDKROOT=/ check $macos
fi

arm=aarch64-unknown-linux-musl
if has $arm && compiler_of $arm aarch64-linux-musl && has_program $arm qemu-aarch64 qemu-user; then
    echo "== $arm"
    # The linker that comes with Rust: it is enough for a static program.
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld
    conforms $arm qemu-aarch64
    cargo build --locked --package leasehold-cli --target $arm --target-dir "$platforms"
    place=$(mktemp -d)
    # `run` starts its own program again, which a kernel without qemu support refuses; `hold` does not.
    said=$(: | LEASEHOLD_STORE=file:$place/locks.db qemu-aarch64 \
        "$platforms/$arm/debug/leasehold" hold emulated)
    rm -r "$place"
    case $said in
    '{"name":"emulated","token":"'[1-9]*) ;;
    *) echo "$arm: the command said: $said" && exit 1 ;;
    esac
fi
