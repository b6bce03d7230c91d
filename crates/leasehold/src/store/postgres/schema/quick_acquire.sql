-- The quick path of an exclusive acquire of names that nobody holds or awaits (model/acquire.rs).
-- If anything about a name is unusual, nothing is written for it, and the caller uses `open` and
-- `close`.
--
-- The arrays are parallel, with an element for each name. holders: the attempts, clients first.
-- gifts: their holds, as records whose times are zero. keep_us: how long a record outlives its
-- lease. blank: a record of a new name. is_guarded: whether a quarantine prevents grants.
--
-- Returns three numbers for each name: the clock, the token and the deadline. If another attempt
-- holds the name, the token is NULL, and the deadline is the end of that hold. If the quick path
-- gives up on a name, both are NULL. Returns an empty array if this session cannot use quick paths.
CREATE FUNCTION leasehold.quick_acquire_1(
  names text[], holders bytea[], gifts bytea[], ttls_us bigint[], not_after_us bigint[],
  keep_us bigint[], blank bytea, is_guarded boolean, patience text
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  answers bigint[] := '{}';
  now_us bigint;
  got bigint;
  until_us bigint;
  kept bigint;
  page bigint;
  token_page bigint;
  change int;
  newest bigint;
  is_free boolean;
BEGIN
  IF NOT leasehold.quick_begin_1('on') THEN
    RETURN answers;
  END IF;
  IF is_guarded THEN
    PERFORM 1 FROM leasehold.boot b
    WHERE b.one AND b.made_in = b.tableoid AND b.grants_from_us <= leasehold.clock_1();
    IF NOT FOUND THEN
      RETURN answers;
    END IF;
  END IF;
  FOR i IN 1 .. cardinality(names) LOOP
    now_us := leasehold.clock_1();
    SELECT l.epoch, l.changes, l.last_token,
      l.idle AND now_us >= l.quick_from_us AND l.quick_sum = leasehold.sum_1(l.record),
      CASE WHEN NOT l.idle AND l.holder <> holders[i] AND now_us <= not_after_us[i]
        AND now_us >= l.quick_from_us AND now_us < l.bound_us
        AND l.bound_us <= now_us + l.longest_ttl_us + CLAIM_WINDOW_US THEN l.bound_us END
    INTO page, change, newest, is_free, until_us
    FROM leasehold.lock l WHERE l.name = names[i] COLLATE "C" ORDER BY l.epoch DESC LIMIT 1;
    IF NOT coalesce(is_free, page IS NULL) THEN
      -- To show that a name is busy, a read without the mutex is enough.
      IF until_us IS NOT NULL THEN
        PERFORM 1 FROM leasehold.token t
        WHERE t.name = names[i] COLLATE "C" AND t.released = newest;
        until_us := CASE WHEN NOT FOUND THEN until_us END;
      END IF;
      answers := answers || ARRAY[now_us, NULL, until_us];
      CONTINUE;
    END IF;
    is_free := leasehold.quick_mutex_1(names[i], cardinality(names) = 1, patience);
    now_us := leasehold.clock_1();
    IF NOT is_free OR now_us > not_after_us[i] OR now_us <= TOKEN_EPOCH_US
      OR now_us > LATEST_US
    THEN
      answers := answers || ARRAY[now_us, NULL, NULL];
      CONTINUE;
    END IF;
    until_us := now_us + ttls_us[i];
    kept := until_us + keep_us[i];
    IF page IS NULL THEN
      SELECT greatest((now_us - TOKEN_EPOCH_US) << 12, n.value + 4096) INTO got
      FROM leasehold.number n WHERE n.name = 'forgotten';
      -- Another session may have made the row after the search above, before this one took the
      -- mutex.
      PERFORM 1 FROM leasehold.lock l WHERE l.name = names[i] COLLATE "C"
      UNION ALL SELECT 1 FROM leasehold.token t WHERE t.name = names[i] COLLATE "C";
      IF NOT FOUND AND got IS NOT NULL
        AND pg_try_advisory_xact_lock(leasehold.hold_1(names[i]))
      THEN
        INSERT INTO leasehold.lock (name, epoch, changes, last_token, fence, idle, collect_at_us,
          record, quick_from_us, quick_sum, since_us, holder, given, deadline_us, ttl_us, bound_us,
          longest_ttl_us)
        VALUES (names[i], 1, 1, got, got, false, kept + keep_us[i] / 2, blank, 0,
          leasehold.sum_1(blank), now_us, holders[i], gifts[i], until_us, ttls_us[i], until_us,
          ttls_us[i]);
        INSERT INTO leasehold.token VALUES (names[i], 1, got);
        answers := answers || ARRAY[now_us, got, until_us];
        CONTINUE;
      END IF;
    ELSE
      -- If a fenced transaction holds the name back, its row lock makes this find nothing.
      SELECT t.epoch INTO token_page FROM leasehold.token t
      WHERE t.name = names[i] COLLATE "C" ORDER BY t.epoch DESC LIMIT 1 FOR UPDATE SKIP LOCKED;
      IF FOUND THEN
        got := greatest((now_us - TOKEN_EPOCH_US) << 12, newest + 4096);
        -- The row was read before the mutex was taken, and may have changed since then.
        UPDATE leasehold.lock l SET epoch = page + (change >= 64)::int,
          changes = CASE WHEN change < 64 THEN change + 1 ELSE 1 END, last_token = got,
          fence = got, idle = false, since_us = now_us, holder = holders[i], given = gifts[i],
          deadline_us = until_us, ttl_us = ttls_us[i], bound_us = until_us,
          longest_ttl_us = ttls_us[i], collect_at_us =
            CASE WHEN l.collect_at_us < kept THEN kept + keep_us[i] / 2 ELSE l.collect_at_us END
        WHERE l.name = names[i] COLLATE "C" AND l.epoch = page AND l.changes = change
          AND l.last_token = newest;
        IF FOUND THEN
          UPDATE leasehold.token t SET epoch = page + (change >= 64)::int, token = got
          WHERE t.name = names[i] COLLATE "C" AND t.epoch = token_page;
          answers := answers || ARRAY[now_us, got, until_us];
          CONTINUE;
        END IF;
      END IF;
    END IF;
    answers := answers || ARRAY[now_us, NULL, NULL];
  END LOOP;
  RETURN answers;
END
$$;
