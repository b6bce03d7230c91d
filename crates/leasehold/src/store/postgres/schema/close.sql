-- Ends a step: writes the records that the step has changed.
--
-- The arrays are parallel, with an element for each name. versions: what `open` returned, NULL for
-- a new name. records: NULL if nothing is left of the record. tokens: the newest token if the step
-- granted the name, else NULL. counters: the counter if the step has drawn from it, else NULL.
-- is_flushed: whether the commit must wait for the disk.
--
-- Returns the names that are held back, because an open transaction has passed `fence` for
-- them, so no token may be granted. If there are such names, nothing is written.
CREATE FUNCTION leasehold.close_2(
  names text[], versions text[], records text[], fences bigint[], used_us bigint[],
  kept_us bigint[], tokens bigint[], counters bigint[], is_flushed boolean
) RETURNS text[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  held_back text[] := '{}';
BEGIN
  FOR i IN 1 .. cardinality(names) LOOP
    IF tokens[i] IS NOT NULL AND NOT leasehold.is_unfenced_2(names[i]) THEN
      held_back := held_back || names[i];
    END IF;
  END LOOP;
  IF cardinality(held_back) > 0 THEN
    RETURN held_back;
  END IF;
  FOR i IN 1 .. cardinality(names) LOOP
    IF records[i] IS NULL THEN
      DELETE FROM leasehold.lock l
      WHERE l.name = names[i] COLLATE "C" AND l.xmin::text = versions[i];
    ELSIF versions[i] IS NULL THEN
      INSERT INTO leasehold.lock
      VALUES (names[i], records[i], fences[i], used_us[i], kept_us[i]) ON CONFLICT DO NOTHING;
    ELSE
      UPDATE leasehold.lock l SET record = records[i], fence = fences[i],
        used_until_us = used_us[i], kept_until_us = kept_us[i]
      WHERE l.name = names[i] COLLATE "C" AND l.xmin::text = versions[i];
    END IF;
    -- The mutex keeps others from changing the row, unless `open` ran in another transaction.
    IF NOT FOUND THEN
      RAISE EXCEPTION 'leasehold: % was changed meanwhile', names[i] USING ERRCODE = 'LH003';
    END IF;
    IF tokens[i] IS NOT NULL THEN
      INSERT INTO leasehold.token VALUES (names[i], tokens[i])
      ON CONFLICT (name) DO UPDATE SET token = excluded.token;
    ELSIF records[i] IS NULL AND leasehold.is_unfenced_2(names[i]) THEN
      DELETE FROM leasehold.token t WHERE t.name = names[i] COLLATE "C";
    END IF;
    IF counters[i] IS NOT NULL THEN
      INSERT INTO leasehold.counter AS c VALUES (leasehold.bucket_2(names[i]), counters[i])
      ON CONFLICT (bucket) DO UPDATE SET value = greatest(c.value, excluded.value);
    END IF;
  END LOOP;
  IF NOT is_flushed THEN
    PERFORM set_config('synchronous_commit', 'off', true);
  END IF;
  RETURN held_back;
END
$$;

-- Whether no open transaction has passed `fence` for a name. If so, none passes before the end of
-- this transaction.
CREATE FUNCTION leasehold.is_unfenced_2(name text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM 1 FROM leasehold.token t
  WHERE t.name = is_unfenced_2.name COLLATE "C" FOR UPDATE SKIP LOCKED;
  RETURN FOUND OR NOT EXISTS (
    SELECT FROM leasehold.token t WHERE t.name = is_unfenced_2.name COLLATE "C");
END
$$;
