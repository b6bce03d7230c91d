#!/bin/sh
# Resolves the library, with all its stores, beside the crates that programs have already, and builds one
# such program. A program can link one SQLite only; TLS has more than one implementation. Then it does what
# the README says, in an empty directory, and packs each package that is published.
# resolves.sh: in `target/resolves`, where the next run finds what this one has built.
set -eu
cd "$(dirname "$0")/.."
root=$PWD place=$PWD/target/resolves
mkdir -p "$place/beside"
: >"$place/beside/lib.rs"

# Each line: the crate, and how a program names it.
neighbours='
rusqlite        { version = "0.32", features = ["bundled"] }
rusqlite        { version = "0.37", features = ["bundled"] }
rusqlite        { version = "0.40", features = ["bundled"] }
rusqlite        { version = "0.43", features = ["bundled"] }
sqlx            { version = "0.8", features = ["postgres", "runtime-tokio"] }
sqlx            { version = "0.8", features = ["sqlite", "runtime-tokio"] }
sqlx            { version = "0.9", features = ["postgres"] }
sqlx            { version = "0.9", features = ["sqlite"] }
sea-orm         { version = "1", features = ["sqlx-postgres", "runtime-tokio-rustls"] }
diesel          { version = "2", features = ["postgres"] }
diesel          { version = "2", features = ["sqlite"] }
redis           { version = "1", features = ["tokio-rustls-comp"] }
deadpool-redis  "0"
bb8-redis       "0"
fred            { version = "10", features = ["enable-rustls"] }
reqwest         "0"
tonic           { version = "0", features = ["tls-aws-lc"] }
axum            "0.8"
'

# in_program COMMAND...: writes the program `beside`, which has $crate as $version, and runs cargo there.
in_program() {
    cat >"$place/beside/Cargo.toml" <<EOF
[package]
name = "beside"
edition = "2024"

[lib]
path = "lib.rs"

[workspace]

[dependencies]
leasehold = { path = "$root/crates/leasehold", features = [$features] }
$crate = $version
EOF
    cargo "$@" --quiet --manifest-path "$place/beside/Cargo.toml"
}

features='"file", "postgres"'
echo "$neighbours" | while read -r crate version; do
    [ -n "$crate" ] || continue
    rm -f "$place/beside/Cargo.lock"
    if ! in_program generate-lockfile; then
        echo "leasehold does not resolve beside $crate = $version"
        exit 1
    fi
    echo "resolves beside $crate = $version"
done

# A program with three neighbours builds, too. With the oldest SQLite: a transaction of the store is one of the
# program's own rusqlite.
crate=rusqlite version='{ version = "0.32", features = ["bundled"] }
redis = { version = "1", features = ["tokio-rustls-comp"] }
axum = "0.8"'
cat >"$place/beside/lib.rs" <<'EOF'
pub fn one(transaction: &leasehold::store::FileTransaction<'_>) -> leasehold::Result<i64> {
    Ok(transaction.sql(|sql: &rusqlite::Transaction<'_>| sql.query_row("SELECT 1", [], |row| row.get(0)))?)
}
pub async fn both(client: &leasehold::Client, redis: &redis::Client) -> leasehold::Result<redis::Client> {
    let _guard = client.mutex("one").acquire().await?;
    Ok(redis.clone())
}
pub fn router(client: leasehold::Client) -> axum::Router {
    axum::Router::new().with_state(client)
}
EOF
rm -f "$place/beside/Cargo.lock"
in_program check --target-dir "$place/target"
echo "builds beside rusqlite 0.32, redis 1 and axum 0.8"

# The first block of the kind $1 in the README.
block() {
    awk -v open="\`\`\`$1" '$0 == open { on = 1; next } /^```/ { if (on) exit } on' "$root/README.md"
}
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
cd "$empty"
ln -s "$root" leasehold # what `git clone` brings
block 'sh by-hand' | grep -v '^git clone' >commands.sh
. ./commands.sh
block rust >src/main.rs
cargo check --quiet --target-dir "$place/target"
echo "the program of the README builds with the dependencies that it adds"

# `cargo install` would compile for minutes what the suite has compiled: what it would install is enough.
path=$(sed -n 's,.*`cargo install --path \([^`]*\)`.*,\1,p' "$root/README.md")
cargo read-manifest --manifest-path "$empty/$path/Cargo.toml" |
    grep -q '"kind":\["bin"\],"crate_types":\["bin"\],"name":"leasehold"'
echo "the command of the README is at $path"

# Packs the command, and each package that others build on, as `cargo publish` would.
cd "$root"
set -- --package leasehold-cli
for text in api/*.txt; do
    set -- "$@" --package "$(basename "$text" .txt)"
done
cargo package --no-verify --allow-dirty --locked --quiet --target-dir target/publish "$@"
echo "packs $*"
