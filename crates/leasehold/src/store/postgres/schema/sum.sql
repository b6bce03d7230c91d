-- A checksum of a record, or NULL if another release has written the record.
CREATE FUNCTION leasehold.sum_1(record bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN substring(record, 1, 1) = RECORD_VERSION
    THEN hashtextextended(encode(record, 'hex'), 0) END
$$;
