-- The newest installed layout. A release refuses a layout without the functions of that release.
CREATE FUNCTION leasehold.layout() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT n.value FROM leasehold.number n WHERE n.name = 'layout'
$$;
