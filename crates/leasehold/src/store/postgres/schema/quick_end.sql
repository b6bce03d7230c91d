-- The quick path to release or cancel a hold that a quick path has granted, if nobody waits for the
-- name (model/release.rs, model/cancel.rs). If anything about a name is unusual, nothing is written
-- for it.
--
-- The arrays are parallel. were_had: true for a release by a holder, false for a cancel before the
-- caller knew of the grant. The commit does not wait for the disk: if a crash loses the commit,
-- others are delayed, and nothing is granted wrongly.
--
-- Returns the clock for each name, or NULL if the quick path gives up on it. Returns an empty array
-- if this session cannot use quick paths.
CREATE FUNCTION leasehold.quick_end_1(
  names text[], holders bytea[], were_had boolean[], keep_us bigint, patience text
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  answers bigint[] := '{}';
  now_us bigint;
  kept bigint;
BEGIN
  IF NOT leasehold.quick_begin_1('off') THEN
    RETURN answers;
  END IF;
  FOR i IN 1 .. cardinality(names) LOOP
    IF NOT leasehold.quick_mutex_1(names[i], cardinality(names) = 1, patience) THEN
      answers := answers || NULL::bigint;
      CONTINUE;
    END IF;
    now_us := leasehold.clock_1();
    kept := now_us + keep_us;
    -- `ended` and `ended_us` describe the last holder.
    UPDATE leasehold.lock l SET changes = l.changes + 1, fence = NULL, idle = true,
      holder = NULL, given = NULL, collect_at_us =
        CASE WHEN l.collect_at_us < kept THEN kept + keep_us / 2 ELSE l.collect_at_us END,
      ended = CASE WHEN were_had[i] THEN l.given ELSE l.ended END,
      ended_us = CASE WHEN were_had[i] THEN now_us ELSE l.ended_us END
    WHERE l.name = names[i] COLLATE "C" AND l.epoch = (
        SELECT page.epoch FROM leasehold.lock page WHERE page.name = names[i] COLLATE "C"
        ORDER BY page.epoch DESC LIMIT 1)
      AND l.holder = holders[i] AND l.deadline_us > now_us;
    answers := answers || CASE WHEN FOUND THEN now_us END;
  END LOOP;
  RETURN answers;
END
$$;
