-- Quick path of releases and cancels: of holds that a quick path has given, and that nobody waits
-- for (model/release.rs, model/cancel.rs). Writes nothing for a name with anything unusual about it.
--
-- The arrays are parallel. were_had: released by a holder, or cancelled before anybody had it. The
-- commit is not waited for: what is lost of it delays somebody, and grants nothing.
--
-- Gives a row for each name: the clock, and whether it was done. No row at all, where the session
-- is not fit.
CREATE FUNCTION leasehold.quick_end_1(
  names text[], holders bytea[], were_had boolean[], keep_us bigint, patience text
) RETURNS TABLE (now_us bigint, is_done boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  seen leasehold.lock%ROWTYPE;
  kept bigint;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed'
    OR current_setting('transaction_read_only') = 'on'
  THEN
    RETURN;
  END IF;
  PERFORM set_config('synchronous_commit', 'off', true),
    set_config('lock_timeout', patience, true);
  FOR i IN 1 .. cardinality(names) LOOP
    is_done := false;
    now_us := leasehold.clock_1();
    SELECT l.* INTO seen FROM leasehold.lock l
    WHERE l.name = names[i] COLLATE "C" ORDER BY l.epoch DESC LIMIT 1;
    IF NOT FOUND OR seen.holder IS DISTINCT FROM holders[i] OR seen.changes >= 64 THEN
      RETURN NEXT;
      CONTINUE;
    END IF;
    IF cardinality(names) = 1 THEN
      PERFORM pg_advisory_xact_lock(leasehold.mutex_1(names[i]));
    ELSIF NOT pg_try_advisory_xact_lock(leasehold.mutex_1(names[i])) THEN
      RETURN NEXT;
      CONTINUE;
    END IF;
    now_us := leasehold.clock_1();
    IF now_us < seen.deadline_us THEN
      kept := now_us + keep_us;
      IF seen.collect_at_us < kept THEN
        seen.collect_at_us := kept + keep_us / 2;
      END IF;
      IF were_had[i] THEN
        seen.ended := seen.given;
        seen.ended_token := seen.last_token;
        seen.ended_since_us := seen.since_us;
        seen.ended_us := now_us;
      END IF;
      -- It was seen before the mutex was had, and may have changed since then.
      UPDATE leasehold.lock l SET changes = l.changes + 1, fence = NULL, idle = true,
        collect_at_us = seen.collect_at_us, holder = NULL, given = NULL, ended = seen.ended,
        ended_token = seen.ended_token, ended_since_us = seen.ended_since_us,
        ended_us = seen.ended_us
      WHERE l.name = names[i] COLLATE "C" AND l.epoch = seen.epoch AND l.changes = seen.changes
        AND l.last_token = seen.last_token;
      is_done := FOUND;
    END IF;
    RETURN NEXT;
  END LOOP;
END
$$;
