#!/bin/sh
# Installs the libraries of the programs in other languages that share a lock with the tests, into
# `target/mixed`. They come from the registries of their languages, at the versions in this tree. If
# something cannot be installed, the script says so, and the tests leave it out.
set -u
cd "$(dirname "$0")/../.."
into=$PWD/target/mixed

# each LANGUAGE INSTALL FILE...: runs INSTALL PLACE FILE, unless it has run with the same files.
each() {
    language=$1 install=$2 place=$into/$1
    shift 2
    wanted=$(cat "$@")
    [ "$(cat "$place/installed" 2>&1)" = "$wanted" ] && return
    rm -rf "$place"
    mkdir -p "$place"
    # Written last, so that an incomplete installation is begun anew.
    if $install "$place" "$1" >"$place/log" 2>&1; then
        printf '%s' "$wanted" >"$place/installed"
    else
        echo "left out: the tests with programs in $language: $(tail -n 1 "$place/log")"
    fi
}

with_npm() {
    cp "$2" "$1" && npm install --prefix "$1" --no-package-lock --ignore-scripts --no-audit --no-fund
}

with_pip() {
    python3 -m venv "$1" && "$1/bin/pip" install --quiet --requirement "$2"
}

with_maven() {
    java -version && mvn --quiet --batch-mode --file "$2" "-Dplace=$1" compile \
        dependency:copy-dependencies
}

with_go_tool() {
    GOBIN=$1 go install "$(cat "$2")"
}

# Built from a copy, because the checksums of downloads are written into its directory.
with_go() {
    cp "$2" "$(dirname "$2")/main.go" "$1" && go build -C "$1" -mod=mod -o "$(basename "$1")" .
}

each node with_npm tests/mixed/package.json
each python with_pip tests/mixed/requirements.txt
each kubernetes with_pip packaging/kubernetes/requirements.txt
java=src/main/java
each redisson with_maven tests/peers/redisson/pom.xml \
    tests/peers/redisson/$java/Peer.java tests/peers/redisson/$java/Fleet.java
each java with_maven tests/peers/java/pom.xml tests/peers/java/$java/Plain.java
each actionlint with_go_tool .github/actionlint.txt
each redsync with_go tests/peers/redsync/go.mod tests/peers/redsync/main.go
