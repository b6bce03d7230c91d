-- Ends a step: writes the records that the step has changed.
--
-- The arrays are parallel, with an element for each name. epochs, changes: the values that `open`
-- returned, NULL for a new name. tokens: the newest token if the step granted the name, else NULL.
-- is_flushed: whether the commit must wait for the disk. quick_from_us: the time from which quick
-- paths may grant the name.
--
-- Returns the names that are held back, because an open transaction has passed `fence` for
-- them, so no token may be granted. If there are such names, nothing is written.
CREATE FUNCTION leasehold.close_1(
  names text[], epochs bigint[], changes int[], records bytea[], idle boolean[],
  collect_at_us bigint[], last_tokens bigint[], fences bigint[], tokens bigint[],
  quick_from_us bigint[], is_flushed boolean
) RETURNS text[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  held_back text[] := '{}';
  token_epochs bigint[] := '{}';
  token_epoch bigint;
  next_epoch bigint;
BEGIN
  FOR i IN 1 .. cardinality(names) LOOP
    token_epoch := NULL;
    IF tokens[i] IS NOT NULL THEN
      SELECT t.epoch INTO token_epoch FROM leasehold.token t
      WHERE t.name = names[i] COLLATE "C" ORDER BY t.epoch DESC LIMIT 1;
      IF FOUND THEN
        PERFORM 1 FROM leasehold.token t
        WHERE t.name = names[i] COLLATE "C" AND t.epoch = token_epoch FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
          held_back := held_back || names[i];
        END IF;
      ELSIF NOT pg_try_advisory_xact_lock(leasehold.hold_1(names[i])) THEN
        held_back := held_back || names[i];
      END IF;
    END IF;
    token_epochs[i] := token_epoch;
  END LOOP;
  IF cardinality(held_back) > 0 THEN
    RETURN held_back;
  END IF;
  FOR i IN 1 .. cardinality(names) LOOP
    -- With another epoch the row has another key (`tables.sql`).
    next_epoch := coalesce(epochs[i] + (changes[i] >= 64)::int, 1);
    IF epochs[i] IS NULL THEN
      INSERT INTO leasehold.lock VALUES (names[i], next_epoch, 1, last_tokens[i], fences[i],
        idle[i], collect_at_us[i], records[i], quick_from_us[i],
        leasehold.sum_1(records[i]));
    ELSE
      UPDATE leasehold.lock l SET epoch = next_epoch,
        changes = CASE WHEN next_epoch = epochs[i] THEN l.changes + 1 ELSE 1 END,
        last_token = last_tokens[i], fence = fences[i], idle = close_1.idle[i],
        collect_at_us = close_1.collect_at_us[i], record = records[i],
        quick_from_us = close_1.quick_from_us[i], quick_sum = leasehold.sum_1(records[i]),
        since_us = NULL, holder = NULL, given = NULL, deadline_us = NULL, ttl_us = NULL,
        bound_us = NULL, longest_ttl_us = NULL, ended = NULL, ended_us = NULL
      WHERE l.name = names[i] COLLATE "C" AND l.epoch = epochs[i] AND l.changes = close_1.changes[i];
    END IF;
    -- The mutex keeps others from changing the row, unless `open` ran in another transaction.
    IF NOT FOUND THEN
      RAISE EXCEPTION 'leasehold: % was changed meanwhile', names[i] USING ERRCODE = 'LH003';
    END IF;
    IF tokens[i] IS NULL THEN
      CONTINUE;
    ELSIF token_epochs[i] IS NULL THEN
      INSERT INTO leasehold.token VALUES (names[i], next_epoch, tokens[i]);
    ELSE
      UPDATE leasehold.token t SET epoch = next_epoch, token = tokens[i]
      WHERE t.name = names[i] COLLATE "C" AND t.epoch = token_epochs[i];
    END IF;
  END LOOP;
  IF NOT is_flushed THEN
    PERFORM set_config('synchronous_commit', 'off', true);
  END IF;
  RETURN held_back;
END
$$;
