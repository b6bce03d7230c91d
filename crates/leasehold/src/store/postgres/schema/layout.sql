-- The newest layout that is installed: a release refuses one that has not its own functions.
CREATE FUNCTION leasehold.layout() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT n.value FROM leasehold.number n WHERE n.name = 'layout'
$$;
