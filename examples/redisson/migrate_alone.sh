#!/bin/sh
# Runs a migration and keeps services in Java out, which write only under the RLock of the same name.
# LEASEHOLD_STORE names their locks: redis://10.0.0.5/0?layout=redisson
#
#   migrate_alone.sh NAME COMMAND…
set -eu
name=$1
shift
# The migration waits for the present writers. If the lock is lost (somebody calls forceUnlock), the
# migration is ended soon, so that it does not run beside another writer for long.
exec leasehold run "$name" --wait 10m --label "migration" -- "$@"
