#!/bin/sh
# The corpus of fuzzing is one archive for each target. `corpus.sh unpack` makes directories of
# them, as cargo-fuzz reads and extends them; `corpus.sh pack` makes archives of directories.
set -eu
cd "$(dirname "$0")/corpus"
case "${1:-}" in
unpack)
    for archive in *.tar.gz; do
        tar -xzf "$archive"
    done
    ;;
pack)
    for target in */; do
        target=${target%/}
        tar --sort=name --owner=0 --group=0 --numeric-owner --mtime='2026-01-01 UTC' -cf - "$target" |
            gzip -n9 >"$target.tar.gz"
        rm -r "$target"
    done
    ;;
*)
    echo "usage: corpus.sh unpack|pack" >&2
    exit 2
    ;;
esac
