-- Takes a name that is free for a reader. Returns the token. The hold is a line of the queue, and
-- its gate outlives it by the grace.
SET epoch = l.epoch + (l.turn >= 63)::int, turn = (l.turn + 1) & 63,
  counter = greatest(l.counter + 1, c.now_us + k.at), fence = NULL,
  free_from_us = (c.now_us / 1000 + k.ms + (GRACE_MS + 1)) * 1000,
  used_until_us = (c.now_us / 1000 + k.ms + (GRACE_MS + 1)) * 1000,
  hold = 's 0 CAPACITY', record = NULL,
  queue = ARRAY[pg_catalog.concat('shares ', c.now_us / 1000 + k.ms, ' ',
    greatest(l.counter + 1, c.now_us + k.at), ' ', k.own, k.what)]
WHERE n.free_from_us <= c.now_us AND MAY_GRANT
FOR UPDATE
RETURNING l.counter, set_config('synchronous_commit', 'on', true)
