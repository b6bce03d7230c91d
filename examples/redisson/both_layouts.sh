#!/bin/sh
# Runs a command that holds a name in two layouts: it excludes those who know only the old one, those
# who know only the new one, and those who take both as it does.
#
#   OLD='redis://10.0.0.5/0?layout=redisson' NEW='redis://10.0.0.5/0' both_layouts.sh NAME COMMAND…
set -eu
name=$1
shift
# Always the old one first: two who take them in different order would wait for each other.
exec leasehold run "$name" --store "$OLD" -- leasehold run "$name" --store "$NEW" -- "$@"
