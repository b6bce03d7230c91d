#!/bin/sh
# Runs a command that holds a name in two layouts: it excludes programs that take only the old lock,
# programs that take only the new lock, and programs that take both in the same way.
#
#   OLD='redis://10.0.0.5/0?layout=redisson' NEW='redis://10.0.0.5/0' both_layouts.sh NAME COMMAND…
set -eu
name=$1
shift
# The old lock always comes first: two programs with different orders would wait for each other.
exec leasehold run "$name" --store "$OLD" -- leasehold run "$name" --store "$NEW" -- "$@"
