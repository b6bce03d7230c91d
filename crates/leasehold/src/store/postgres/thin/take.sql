-- Takes a name that is free. Returns the token. The hold of a reader is a line of the queue, and
-- its gate outlives it by the grace.
SET epoch = l.epoch + (l.turn >= 63)::int, turn = (l.turn + 1) & 63,
  counter = greatest(l.counter + 1, k.token_us),
  fence = CASE WHEN k.is_alone THEN greatest(l.counter + 1, k.token_us) END,
  free_from_us = (k.deadline_ms + (NOT k.is_alone)::int * GRACE_MS + 1) * 1000,
  used_until_us = (k.deadline_ms + (NOT k.is_alone)::int * GRACE_MS + 1) * 1000,
  hold = CASE WHEN k.is_alone
    THEN concat('h ', k.own, greatest(l.counter + 1, k.token_us), substr(k.what, 2))
    ELSE 's 0 CAPACITY' END,
  queue = CASE WHEN NOT k.is_alone THEN ARRAY[concat('shares ', k.deadline_ms, ' ',
    greatest(l.counter + 1, k.token_us), ' ', k.own, k.what)] END, record = NULL
WHERE n.free_from_us <= c.now_us
FOR UPDATE
RETURNING l.counter, set_config('synchronous_commit', 'on', true)
