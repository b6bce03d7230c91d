-- Ends a step: writes the row that the step has changed.
--
-- at_epoch and version: what `open` returned. grants: true if the step grants a token, false if it
-- ends an exclusive hold, else NULL. is_flushed: whether the commit must wait for the disk.
--
-- Returns false if the name is held back: an open transaction has passed `fence` for it, so no token
-- may be granted. Then nothing is written.
CREATE FUNCTION leasehold.close_4(
  changed text, at_epoch bigint, version text, counter bigint, fence bigint, free_from_us bigint,
  used_until_us bigint, hold text, queue text[], record text, grants boolean, is_flushed boolean
) RETURNS boolean
LANGUAGE plpgsql AS_OWNER AS $$
BEGIN
  IF grants IS NOT NULL THEN
    -- The update below has the lock of this statement, and so a `fence` with an older snapshot
    -- notices a grant. It notices an end, too, unless another fenced transaction is open.
    PERFORM 1 FROM leasehold.lease l
    WHERE l.name = changed COLLATE "C" AND l.epoch = at_epoch FOR UPDATE SKIP LOCKED;
    IF grants AND NOT FOUND THEN RETURN false; END IF;
  END IF;
  UPDATE leasehold.lease l
  SET epoch = l.epoch + (grants IS TRUE AND l.turn >= 63)::int,
    turn = (l.turn + (grants IS TRUE)::int) & 63, counter = close_4.counter, fence = close_4.fence,
    free_from_us = close_4.free_from_us, used_until_us = close_4.used_until_us,
    hold = close_4.hold, queue = close_4.queue, record = close_4.record
  WHERE l.name = changed COLLATE "C" AND l.epoch = at_epoch AND l.xmin::text = version;
  -- The lock of `open` keeps others from changing the row, unless it was in another transaction.
  IF NOT FOUND THEN
    RAISE EXCEPTION 'leasehold: % was changed meanwhile', changed USING ERRCODE = 'LH003';
  END IF;
  IF NOT is_flushed THEN
    PERFORM set_config('synchronous_commit', 'off', true);
  END IF;
  RETURN true;
END
$$;
