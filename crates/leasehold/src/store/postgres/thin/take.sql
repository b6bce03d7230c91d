-- Takes a name that is free. Returns the token.
SET epoch = l.epoch + (l.turn >= 63)::int, turn = (l.turn + 1) & 63,
  counter = greatest(l.counter + 1, c.now_us + k.at),
  fence = greatest(l.counter + 1, c.now_us + k.at),
  free_from_us = (c.now_us / 1000 + k.ms + 1) * 1000,
  used_until_us = (c.now_us / 1000 + k.ms + 1) * 1000,
  hold = pg_catalog.concat('h ', k.own, greatest(l.counter + 1, c.now_us + k.at), substr(k.what, 2)),
  queue = NULL, record = NULL
WHERE n.free_from_us <= c.now_us AND MAY_GRANT
FOR UPDATE
RETURNING l.counter, set_config('synchronous_commit', 'on', true)
