-- A trigger that allows the change of a row only in a transaction that has passed `fence` for the
-- row's lock. Otherwise it raises LH004. The name of the lock is the first argument. If there is a
-- second argument, it names a column, whose value in the row is appended to the first:
--
--   CREATE CONSTRAINT TRIGGER fenced AFTER INSERT OR UPDATE OR DELETE ON invoice
--   DEFERRABLE INITIALLY DEFERRED
--   FOR EACH ROW EXECUTE FUNCTION leasehold.require_fence('invoices/', 'id');
--
-- A deferred trigger also accepts a transaction that calls `fence` last.
--
-- It runs with the rights of the role that writes the row, because `to_jsonb` calls the casts of
-- the row's own types, which are anybody's functions.
CREATE FUNCTION leasehold.require_fence() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  written jsonb[];
  one jsonb;
  wanted text;
  fenced text := E'\n' || coalesce(current_setting('leasehold.fenced', true), '');
BEGIN
  IF TG_LEVEL <> 'ROW' OR TG_NARGS NOT IN (1, 2) THEN
    RAISE EXCEPTION 'leasehold: require_fence is FOR EACH ROW, with a name and perhaps a column'
      USING ERRCODE = 'LH004';
  END IF;
  -- If a change gives a row another lock, both locks must be fenced.
  written := CASE TG_OP
    WHEN 'INSERT' THEN ARRAY[to_jsonb(NEW)]
    WHEN 'DELETE' THEN ARRAY[to_jsonb(OLD)]
    ELSE ARRAY[to_jsonb(OLD), to_jsonb(NEW)]
  END;
  FOREACH one IN ARRAY written LOOP
    IF TG_NARGS = 2 AND one ->> TG_ARGV[1] IS NULL THEN
      RAISE EXCEPTION 'leasehold: % has no value in the column % that require_fence was given',
        TG_TABLE_NAME, TG_ARGV[1] USING ERRCODE = 'LH004';
    END IF;
    wanted := TG_ARGV[0] || CASE TG_NARGS WHEN 2 THEN one ->> TG_ARGV[1] ELSE '' END;
    IF position(E'\n' || wanted || E'\n' IN fenced) = 0 THEN
      RAISE EXCEPTION 'leasehold: % was written without the fence of %', TG_TABLE_NAME, wanted
        USING ERRCODE = 'LH004', CONSTRAINT = 'LH004',
          HINT = format('Call leasehold.fence(%L, token) in the same transaction.', wanted);
    END IF;
  END LOOP;
  RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END
$$;
