#!/bin/sh
# Runs a migration while the services in Java are kept out, which write only under the RLock of the
# same name. LEASEHOLD_STORE is theirs: redis://10.0.0.5/0?layout=redisson
#
#   migrate_alone.sh NAME COMMAND…
set -eu
name=$1
shift
# It waits for those who write now. If the lock is lost (somebody calls forceUnlock), the migration
# is ended before anybody else can have believed for long to be alone.
exec leasehold run "$name" --wait 10m --label "migration" -- "$@"
