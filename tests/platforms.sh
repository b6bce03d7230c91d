#!/bin/sh
# Checks that the library compiles where no machine is at hand: with `redis`, and for `memory:`, on
# Windows and macOS; and that `file` says there what it is for. Where wine is, the store in memory also
# does under it what every store must do. Nothing else is linked or run: the workflow has real machines
# for that. C code of dependencies is compiled by gcc for Windows, and by zig, which comes as a Python
# package, for macOS. Without them or a standard library a target is left out.
set -eu
cd "$(dirname "$0")/.."
tools=$PWD/target/tools
features=redis,metrics,serde,tracing

left_out() { echo "left out: $1: $2"; }

# check TARGET: the library and its tests, with all that is for every system.
check() {
    echo "== $1"
    cargo check --locked --package leasehold --no-default-features --features "$features" \
        --target "$1" --target-dir target/platforms
}

# Whether the standard library of a target is there or can be had.
has() { rustup target add "$1" >/dev/null 2>&1 || { left_out "$1" 'no standard library' && false; }; }

# `file` on a system that is no Unix is refused in one sentence.
refused() {
    said=$(cargo check --locked --package leasehold --no-default-features --features file \
        --target "$1" --target-dir target/platforms 2>&1 || true)
    echo "$said" | grep --quiet 'the file store is for Unix' || {
        echo "$said" | tail -n 20
        echo "$1: the feature \`file\` is not refused in words"
        exit 1
    }
}

# Conformance of the store in memory. Wine 8 has no bcryptprimitives.dll, from which Rust takes its
# random numbers: one stands beside the program that asks the older function.
under_wine() {
    mkdir -p target/platforms/$windows/debug/deps
    x86_64-w64-mingw32-gcc -shared -x c -o target/platforms/$windows/debug/deps/bcryptprimitives.dll - \
        -ladvapi32 <<'END'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) {
    return SystemFunction036(data, size);
}
END
    CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine WINEDEBUG=-all WINEPREFIX=$PWD/target/wine \
        cargo test --locked --package leasehold-conformance --test memory --target $windows \
        --target-dir target/platforms
}

windows=x86_64-pc-windows-gnu
if has $windows; then
    command -v x86_64-w64-mingw32-gcc >/dev/null ||
        apt-get install --yes --no-install-recommends gcc-mingw-w64-x86-64 ||
        left_out $windows 'gcc-mingw-w64-x86-64 is missing'
    if command -v x86_64-w64-mingw32-gcc >/dev/null; then
        check $windows
        refused $windows
        if command -v wine >/dev/null; then
            under_wine
        else
            left_out $windows 'conformance: wine is missing (`apt-get install wine`)'
        fi
    fi
fi

macos=aarch64-apple-darwin
if has $macos; then
    [ -x "$tools/zig/bin/python" ] || {
        python3 -m venv "$tools/zig" && "$tools/zig/bin/pip" install --quiet ziglang==0.17.1
    } || left_out $macos 'zig cannot be had'
    if "$tools/zig/bin/python" -m ziglang version >/dev/null 2>&1; then
        # Drops the words that name the target, and names it as zig does.
        cat >"$tools/zig/cc" <<'END'
#!/bin/sh
for word; do
    shift
    case $word in
    --target=* | -arch | arm64 | -mmacosx-version-min=* | -isysroot | */MacOSX*.sdk) ;;
    *) set -- "$@" "$word" ;;
    esac
done
exec "$(dirname "$0")/bin/python" -m ziglang cc -target aarch64-macos "$@"
END
        chmod +x "$tools/zig/cc"
        export CC_aarch64_apple_darwin="$tools/zig/cc" AR_aarch64_apple_darwin=ar SDKROOT=/
        check $macos
    fi
fi
