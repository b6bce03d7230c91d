-- Looks at the next names after another name, and removes those whose retention is over. It keeps
-- the highest of their tokens, above which the tokens of new names begin. It skips names that are
-- locked or fenced.
--
-- Returns the name from which to continue. Returns NULL at the end, and if another client is doing
-- the same.
CREATE FUNCTION leasehold.tidy_1(beyond text, at_most bigint) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  seen record;
  token_epoch bigint;
  last text;
  highest bigint := 0;
  passed bigint := 0;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'leasehold: a step needs READ COMMITTED' USING ERRCODE = 'LH002';
  END IF;
  IF NOT pg_try_advisory_xact_lock(leasehold.mutex_1('')) THEN
    RETURN NULL; -- no lock has an empty name
  END IF;
  FOR seen IN
    SELECT l.name, l.epoch, l.collect_at_us FROM leasehold.lock l
    WHERE l.name > beyond COLLATE "C" ORDER BY l.name LIMIT at_most
  LOOP
    last := seen.name;
    passed := passed + 1;
    IF seen.collect_at_us > leasehold.clock_1()
      OR NOT pg_try_advisory_xact_lock(leasehold.mutex_1(seen.name))
    THEN
      CONTINUE;
    END IF;
    SELECT t.epoch INTO token_epoch FROM leasehold.token t
    WHERE t.name = seen.name COLLATE "C" ORDER BY t.epoch DESC LIMIT 1;
    IF FOUND THEN
      PERFORM 1 FROM leasehold.token t
      WHERE t.name = seen.name COLLATE "C" AND t.epoch = token_epoch FOR UPDATE SKIP LOCKED;
      CONTINUE WHEN NOT FOUND;
    END IF;
    -- The row is read again, now that nobody else can change it.
    SELECT l.* INTO seen FROM leasehold.lock l
    WHERE l.name = seen.name COLLATE "C" ORDER BY l.epoch DESC LIMIT 1;
    CONTINUE WHEN NOT FOUND OR seen.collect_at_us > leasehold.clock_1();
    highest := greatest(highest, seen.last_token);
    DELETE FROM leasehold.lock l WHERE l.name = seen.name COLLATE "C" AND l.epoch = seen.epoch;
    DELETE FROM leasehold.token t WHERE t.name = seen.name COLLATE "C" AND t.epoch = token_epoch;
  END LOOP;
  UPDATE leasehold.number n SET value = highest WHERE n.name = 'forgotten' AND n.value < highest;
  RETURN CASE WHEN passed = at_most THEN last END;
END
$$;
