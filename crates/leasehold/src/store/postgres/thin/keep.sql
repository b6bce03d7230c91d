-- Renews a lease. Returns whether somebody may wait for the name: a `w`, with which the gate
-- outlives the lease by the grace.
SET used_until_us = greatest(l.used_until_us,
    (c.now_us / 1000 + k.ms + starts_with(l.hold, 'w')::int * GRACE_MS + 1) * 1000),
  free_from_us = greatest(l.free_from_us,
    (c.now_us / 1000 + k.ms + starts_with(l.hold, 'w')::int * GRACE_MS + 1) * 1000)
WHERE starts_with(substr(n.hold, 3), k.own) AND n.record IS NULL
  AND n.used_until_us - starts_with(n.hold, 'w')::int * (GRACE_MS * 1000) > c.now_us
FOR NO KEY UPDATE
RETURNING starts_with(l.hold, 'w'), set_config('synchronous_commit', 'on', true)
