#!/bin/sh
# Installs a Debian package, unless a command shows by exit code 0 that it is installed:
# apt.sh PACKAGE COMMAND ARG... The lists of packages in a fresh container are empty, so if the first try
# fails, they are fetched for a second one.
set -eu
package=$1
shift
"$@" >/dev/null 2>&1 && exit
install() {
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        --option=DPkg::Lock::Timeout=300 "$package" >/dev/null 2>&1
}
install || { apt-get update >/dev/null 2>&1 && install; } || {
    echo "$package is missing: install it (\`apt-get install $package\`)" >&2
    exit 1
}
