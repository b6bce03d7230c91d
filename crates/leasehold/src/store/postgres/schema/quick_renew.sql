-- The quick path of renewals, for holds that a quick path has granted (model/renew.rs). If anything
-- about a name is unusual, nothing is written for it.
--
-- The arrays are parallel. Returns three numbers for each name: the clock, the token and the
-- deadline. The last two are NULL if the quick path gives up on the name. Returns an empty array if
-- this session cannot use quick paths.
CREATE FUNCTION leasehold.quick_renew_1(
  names text[], holders bytea[], ttls_us bigint[], keep_us bigint, patience text
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  answers bigint[] := '{}';
  seen leasehold.lock%ROWTYPE;
  now_us bigint;
  kept bigint;
BEGIN
  IF NOT leasehold.quick_begin_1('on') THEN
    RETURN answers;
  END IF;
  FOR i IN 1 .. cardinality(names) LOOP
    now_us := leasehold.clock_1();
    SELECT l.* INTO seen FROM leasehold.lock l
    WHERE l.name = names[i] COLLATE "C" ORDER BY l.epoch DESC LIMIT 1;
    IF NOT FOUND OR seen.holder IS DISTINCT FROM holders[i] OR EXISTS (
      SELECT FROM leasehold.token t
      WHERE t.name = names[i] COLLATE "C" AND t.released = seen.last_token)
    THEN
      answers := answers || ARRAY[now_us, NULL, NULL];
      CONTINUE;
    END IF;
    IF NOT leasehold.quick_mutex_1(names[i], cardinality(names) = 1, patience) THEN
      answers := answers || ARRAY[now_us, NULL, NULL];
      CONTINUE;
    END IF;
    now_us := leasehold.clock_1();
    -- If this is false, the hold has ended, or the clock went back.
    IF now_us < seen.deadline_us AND seen.deadline_us <= now_us + seen.ttl_us + CLAIM_WINDOW_US
      AND seen.bound_us <= now_us + seen.longest_ttl_us + CLAIM_WINDOW_US
    THEN
      IF now_us >= seen.bound_us THEN
        seen.bound_us := seen.deadline_us; -- the bound that a sweep would find
      END IF;
      IF now_us + ttls_us[i] > seen.deadline_us THEN
        seen.deadline_us := now_us + ttls_us[i];
        seen.ttl_us := ttls_us[i];
      END IF;
      kept := seen.deadline_us + keep_us;
      IF seen.collect_at_us < kept THEN
        seen.collect_at_us := kept + keep_us / 2;
      END IF;
      seen.longest_ttl_us := greatest(seen.longest_ttl_us, ttls_us[i]);
      -- The row was read before the mutex was taken, and may have changed since then.
      UPDATE leasehold.lock l SET
        epoch = l.epoch + (l.changes >= 64)::int,
        changes = CASE WHEN l.changes < 64 THEN l.changes + 1 ELSE 1 END,
        collect_at_us = seen.collect_at_us, deadline_us = seen.deadline_us, ttl_us = seen.ttl_us,
        bound_us = seen.bound_us, longest_ttl_us = seen.longest_ttl_us
      WHERE l.name = names[i] COLLATE "C" AND l.epoch = seen.epoch AND l.changes = seen.changes
        AND l.last_token = seen.last_token;
      IF FOUND THEN
        answers := answers || ARRAY[now_us, seen.last_token, seen.deadline_us];
        CONTINUE;
      END IF;
    END IF;
    answers := answers || ARRAY[now_us, NULL, NULL];
  END LOOP;
  RETURN answers;
END
$$;
