-- Layout 1: the tables. Only the owner has rights on them; other roles use the functions. The
-- record of each name is in one visible row. `record` is the record of the model. `fence` is the
-- token of the exclusive hold, or NULL once its end was noticed. After 64 changes, a row continues
-- under the next epoch, with another key. So a step need not pass over many row versions that an
-- old snapshot keeps.
--
-- `quick_from_us`: the time from which quick paths may grant an idle record, or NULL if they may
-- not. `quick_sum`: a checksum of `record`, by which quick paths see that `record` is not damaged.
-- The columns after these have the changes by quick paths since `record` was written, and are NULL
-- if there are none. These columns have the exclusive hold that a quick path granted, if it has not
-- ended, with the bounds of the sweep. `given` is that hold, as a record whose times are zero. The
-- columns from `ended` on have the hold before it, if that was released. Any other write of
-- `record` includes these changes in `record`, and sets the columns to NULL.
CREATE TABLE leasehold.lock (
  name text COLLATE "C",
  epoch bigint,
  changes int NOT NULL,
  last_token bigint NOT NULL,
  fence bigint,
  idle boolean NOT NULL,
  collect_at_us bigint NOT NULL,
  record bytea NOT NULL,
  quick_from_us bigint,
  quick_sum bigint,
  since_us bigint,
  holder bytea,
  given bytea,
  deadline_us bigint,
  ttl_us bigint,
  bound_us bigint,
  longest_ttl_us bigint,
  ended bytea,
  ended_us bigint,
  PRIMARY KEY (name, epoch)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- The newest token of each name. Grants write it, and fenced transactions share-lock it.
-- `released` is the token whose hold ended with a committed transaction. The next step on the name
-- writes that end into the record.
CREATE TABLE leasehold.token (
  name text COLLATE "C",
  epoch bigint,
  token bigint NOT NULL,
  released bigint,
  PRIMARY KEY (name, epoch)
) WITH (fillfactor = 50);

-- Whether the server may have forgotten something. An unlogged table is empty after each crash and
-- after each promotion, and only then. `history` names the data to which the row belongs, so that a
-- row from a backup does not count. `made_in` is the table in which the row was made: the number
-- `tableoid` of a table out of a dump differs, and quick paths can compare it. From
-- `grants_from_us` on, new grants may be made.
CREATE UNLOGGED TABLE leasehold.boot (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  history bigint NOT NULL,
  grants_from_us bigint NOT NULL,
  made_in oid NOT NULL
);

-- Numbers of the whole store: `layout`, and `forgotten`, the highest token of names that are gone.
-- `history` and `grants_from` are a copy of the row of `boot`, and `longest` is the
-- longest possible lease.
CREATE TABLE leasehold.number (name text COLLATE "C" PRIMARY KEY, value bigint NOT NULL);
INSERT INTO leasehold.number VALUES ('layout', 1), ('forgotten', 0);
