-- Quick path of an acquire: exclusive, of names that nobody holds or awaits (model/acquire.rs).
-- Writes nothing for a name with anything unusual about it: that is for `open` and `close`.
--
-- The arrays are parallel, an element for each name. holders: the attempts, clients first. given:
-- their holds as records whose times are zero. keep_us: for how long a record outlives its lease.
-- blank: a record of which nothing is known. is_guarded: whether nothing is granted where the server
-- may have forgotten something.
--
-- Gives a row for each: the clock, and the token with its deadline; or until when another one holds
-- it, without a token; or neither, where it gives up. No row at all, where the session is not fit.
CREATE FUNCTION leasehold.quick_acquire_1(
  names text[], holders bytea[], gifts bytea[], ttls_us bigint[], not_after_us bigint[],
  keep_us bigint[], blank bytea, commit_level text, is_guarded boolean, patience text
) RETURNS TABLE (now_us bigint, got bigint, until_us bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  seen leasehold.lock%ROWTYPE;
  is_new boolean;
  newest bigint;
  kept bigint;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed'
    OR current_setting('transaction_read_only') = 'on'
  THEN
    RETURN;
  END IF;
  IF is_guarded OR commit_level = 'off' THEN
    PERFORM 1 FROM leasehold.boot b
    WHERE b.one AND (b.is_lossy OR commit_level <> 'off')
      AND (b.grants_from_us <= leasehold.clock_1() OR NOT is_guarded);
    IF NOT FOUND THEN
      RETURN;
    END IF;
  END IF;
  PERFORM set_config('synchronous_commit', commit_level, true),
    set_config('lock_timeout', patience, true);
  FOR i IN 1 .. cardinality(names) LOOP
    got := NULL;
    until_us := NULL;
    SELECT l.* INTO seen FROM leasehold.lock l
    WHERE l.name = names[i] COLLATE "C" ORDER BY l.epoch DESC LIMIT 1;
    is_new := NOT FOUND;
    now_us := leasehold.clock_1();
    IF NOT is_new AND NOT seen.idle THEN
      -- Busy is a look, without a mutex.
      IF seen.holder <> holders[i] AND now_us >= seen.quick_from_us AND now_us < seen.bound_us
        AND seen.bound_us <= now_us + seen.longest_ttl_us + CLAIM_WINDOW_US
        AND now_us <= not_after_us[i]
        AND NOT EXISTS (SELECT FROM leasehold.token t
          WHERE t.name = names[i] COLLATE "C" AND t.released = seen.last_token)
      THEN
        until_us := seen.bound_us;
      END IF;
      RETURN NEXT;
      CONTINUE;
    END IF;
    -- One name is waited for; of several, that would be a deadlock.
    IF cardinality(names) = 1 THEN
      PERFORM pg_advisory_xact_lock(leasehold.mutex_1(names[i]));
    ELSIF NOT pg_try_advisory_xact_lock(leasehold.mutex_1(names[i])) THEN
      RETURN NEXT;
      CONTINUE;
    END IF;
    now_us := leasehold.clock_1();
    IF now_us > not_after_us[i] OR now_us <= TOKEN_EPOCH_US OR now_us > LATEST_US THEN
      RETURN NEXT;
      CONTINUE;
    END IF;
    IF is_new THEN
      SELECT n.value INTO newest FROM leasehold.number n WHERE n.name = 'forgotten';
      PERFORM 1 FROM leasehold.lock l WHERE l.name = names[i] COLLATE "C"
      UNION ALL SELECT 1 FROM leasehold.token t WHERE t.name = names[i] COLLATE "C";
      IF FOUND OR NOT pg_try_advisory_xact_lock(leasehold.hold_1(names[i])) THEN
        RETURN NEXT;
        CONTINUE;
      END IF;
      got := greatest((now_us - TOKEN_EPOCH_US) << 12, newest + 4096);
      until_us := now_us + ttls_us[i];
      INSERT INTO leasehold.lock (name, epoch, changes, last_token, fence, idle, collect_at_us,
        record, quick_from_us, quick_sum, since_us, holder, given, deadline_us, ttl_us, bound_us,
        longest_ttl_us)
      VALUES (names[i], 1, 1, got, got, false, until_us + keep_us[i] + keep_us[i] / 2,
        blank, 0, leasehold.sum_1(blank), now_us, holders[i], gifts[i], until_us, ttls_us[i],
        until_us, ttls_us[i]);
      INSERT INTO leasehold.token VALUES (names[i], 1, got);
      RETURN NEXT;
      CONTINUE;
    END IF;
    -- The general path turns the page; and a fenced transaction may hold the name back.
    PERFORM 1 FROM leasehold.token t
    WHERE seen.changes < 64 AND now_us >= seen.quick_from_us
      AND seen.quick_sum = leasehold.sum_1(seen.record)
      AND t.name = names[i] COLLATE "C" AND t.epoch = seen.epoch FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      got := greatest((now_us - TOKEN_EPOCH_US) << 12, seen.last_token + 4096);
      until_us := now_us + ttls_us[i];
      kept := until_us + keep_us[i];
      IF seen.collect_at_us < kept THEN
        seen.collect_at_us := kept + keep_us[i] / 2;
      END IF;
      -- It was seen before the mutex was had, and may have changed since then.
      UPDATE leasehold.lock l SET changes = l.changes + 1, last_token = got, fence = got,
        idle = false, collect_at_us = seen.collect_at_us, since_us = now_us, holder = holders[i],
        given = gifts[i], deadline_us = until_us, ttl_us = ttls_us[i], bound_us = until_us,
        longest_ttl_us = ttls_us[i]
      WHERE l.name = names[i] COLLATE "C" AND l.epoch = seen.epoch AND l.changes = seen.changes
        AND l.last_token = seen.last_token;
      IF FOUND THEN
        UPDATE leasehold.token t SET token = got
        WHERE t.name = names[i] COLLATE "C" AND t.epoch = seen.epoch;
      ELSE
        got := NULL;
        until_us := NULL;
      END IF;
    END IF;
    RETURN NEXT;
  END LOOP;
END
$$;
