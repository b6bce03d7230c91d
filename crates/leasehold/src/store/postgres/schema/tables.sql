-- Layout 2: the tables. Only the owner has rights on them; other roles use the functions. A name
-- that is free has no rows.
--
-- `record` is the record of the model. `fence` is the token of the exclusive hold, or NULL once its
-- end was noticed. Unless something changes, the name is in use until `used_until_us`, and nothing
-- of the record counts after `kept_until_us`.
CREATE TABLE leasehold.lock (
  name text COLLATE "C" PRIMARY KEY,
  record text NOT NULL,
  fence bigint,
  used_until_us bigint NOT NULL,
  kept_until_us bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- The newest token of each name in use. Grants write it, and fenced transactions share-lock it.
-- Renewals do not, so a renewal and a fenced transaction do not wait for each other.
-- `released` is the token whose hold ended with a committed transaction. The next step on the name
-- writes that end into the record.
CREATE TABLE leasehold.token (
  name text COLLATE "C" PRIMARY KEY,
  token bigint NOT NULL,
  released bigint
) WITH (fillfactor = 50);

-- The counters from which tokens and places are drawn. Each counter is for the names of one hash
-- value, and outlives their rows: so the tokens of a name grow, even if the clock was set back
-- after the name was free. One counter for all names would be simpler, but a step locks its counter
-- until its commit is on the disk: all grants would wait for each other.
--
-- Steps on two names of one counter may draw the same token. That does no harm, because only the
-- tokens of one name are compared.
CREATE TABLE leasehold.counter (bucket int PRIMARY KEY, value bigint NOT NULL)
WITH (fillfactor = 50);

-- Whether the server may have forgotten something. An unlogged table is empty after each crash and
-- after each promotion, and only then. `history` names the data to which the row belongs, so that a
-- row from a backup does not count. `made_in` is the table in which the row was made: the number
-- `tableoid` of a table out of a dump differs, and a step can compare it. From `grants_from_us` on,
-- new grants may be made.
CREATE UNLOGGED TABLE leasehold.boot (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  history bigint NOT NULL,
  grants_from_us bigint NOT NULL,
  made_in oid NOT NULL
);

-- Numbers of the whole store: `layout`, and what `boot` says: `history` and `grants_from` are a
-- copy of its row, and `longest` is the longest possible lease.
CREATE TABLE leasehold.number (name text COLLATE "C" PRIMARY KEY, value bigint NOT NULL);
INSERT INTO leasehold.number VALUES ('layout', 2);
