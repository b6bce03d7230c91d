#!/bin/sh
# Makes the package and the archive in `target/dist`, unpacks them and tries them out. The program is
# static, so one build runs on every Linux with the same kind of processor.
set -eu
cd "$(dirname "$0")/.."
target=$(uname -m)-unknown-linux-musl
dist=$PWD/target/dist stage=$PWD/target/dist/leasehold tools=$PWD/target/tools
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# The time of the last commit, so that all builds of one commit are the same.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
# The program contains no path of the build machine, so it is the same from each machine.
flags=CARGO_TARGET_$(echo "$target" | tr a-z- A-Z_)_RUSTFLAGS
export "$flags=--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"

packaging/apt.sh musl-tools which musl-gcc
export "CC_$(echo "$target" | tr - _)=musl-gcc"
packaging/apt.sh man-db which man
packaging/apt.sh redis-server which redis-server
rustup target add "$target"
cargo install --quiet --locked --root "$tools" cargo-deb@3.8.0 cargo-sbom@0.10.0
cargo build --release --locked --package leasehold-cli --target "$target"
program=${CARGO_TARGET_DIR:-$PWD/target}/$target/release/leasehold

# The tree below /usr: the program, its manual and completions, and the documentation.
rm -rf "$dist"
install -D "$program" "$stage/bin/leasehold"
share=$stage/share
mkdir -p "$share/bash-completion/completions" "$share/fish/vendor_completions.d" \
    "$share/zsh/vendor-completions" "$share/man/man1" "$share/man/man7"
"$program" completions bash >"$share/bash-completion/completions/leasehold"
"$program" completions fish >"$share/fish/vendor_completions.d/leasehold.fish"
"$program" completions zsh >"$share/zsh/vendor-completions/_leasehold"
"$program" man >"$share/man/man1/leasehold.1"
# The program lists its pages, as for a completion; each page names its section.
for page in $("$program" @complete man '' | cut -f 1); do
    "$program" man "$page" >"$stage/page"
    section=$(sed -n 's/^\.TH [^ ]* \([0-9]\).*/\1/p' "$stage/page")
    mv "$stage/page" "$share/man/man$section/leasehold-$page.$section"
done
install -D -m 644 -t "$share/doc/leasehold" \
    CHANGELOG.md GUARANTEES.md LICENSE-APACHE LICENSE-MIT README.md
install -D -m 644 -t "$share/doc/leasehold/examples" packaging/examples/* packaging/kubernetes/*.yaml
install -D -m 644 -t "$stage/lib/systemd/system" packaging/*.service

cd "$dist"
name=leasehold-$version-$target
tar --create --use-compress-program='gzip -9n' --file "$name.tar.gz" --sort=name --owner=0 \
    --group=0 --numeric-owner "--mtime=@$SOURCE_DATE_EPOCH" "--transform=s,^leasehold,$name," leasehold
cd - >/dev/null
"$tools/bin/cargo-deb" --no-build --no-strip --package leasehold-cli --target "$target" \
    --output "$dist" --locked
# The list of dependencies, made reproducible: cargo-sbom sorts nothing, and adds the time and a random
# number.
"$tools/bin/cargo-sbom" sbom --cargo-package leasehold-cli --output-format cyclone_dx_json_1_6 |
    python3 -c '
import datetime, json, os, sys
def ordered(value):
    if isinstance(value, dict):
        return {key: ordered(value[key]) for key in value}
    if isinstance(value, list):
        return sorted(map(ordered, value), key=lambda each: json.dumps(each, sort_keys=True))
    return value
sbom = json.load(sys.stdin)
del sbom["serialNumber"]
built = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
sbom["metadata"]["timestamp"] = built.strftime("%Y-%m-%dT%H:%M:%SZ")
json.dump(ordered(sbom), sys.stdout, indent=2, sort_keys=True)' >"$dist/$name.cdx.json"

# The package, unpacked into a tree and used from there.
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
dpkg-deb --extract "$dist"/*.deb "$tree"
export PATH="$tree/usr/bin:$PATH" LEASEHOLD_STORE="file:$tree/locks.db"
if ldd "$tree/usr/bin/leasehold" 2>&1 | grep '=>'; then
    echo 'the program is not static' && exit 1
fi
test "$(leasehold run packed -- sh -c 'echo $LEASEHOLD_NAME')" = packed
# The candidates that a shell offers for a name.
offered=$(bash --norc -c "source '$tree/usr/share/bash-completion/completions/leasehold'
    COMP_WORDS=(leasehold run pack) COMP_CWORD=2 COMP_LINE='leasehold run pack' COMP_POINT=18
    _leasehold leasehold pack run
    echo \"\${COMPREPLY[@]}\"")
test "$offered" = packed
test -e "$tree"/usr/share/man/man1/leasehold-run.1*
for page in "$tree"/usr/share/man/man*/*; do
    warnings=$(MANWIDTH=100 LC_ALL=C.UTF-8 man --warnings --local-file "$page" 2>&1 >/dev/null)
    test -z "$warnings" || { echo "$page: $warnings" && exit 1; }
done
if command -v systemd-analyze >/dev/null; then
    for unit in "$tree"/usr/lib/systemd/system/*; do
        systemd-analyze verify --man=no --recursive-errors=no "--root=$tree" \
            "$(basename "$unit" | sed 's/@\./@name./')"
    done
else
    echo 'left out: the check of units: there is no systemd-analyze'
fi

# A test in an empty root directory, as in an image. Only root can make one.
LEASEHOLD_STATIC=$program cargo test --locked --package leasehold-cli --test command -- container

rm -r "$stage"
cd "$dist"
sums=$(sha256sum -- *)
echo "$sums" | tee "$name.sha256"
