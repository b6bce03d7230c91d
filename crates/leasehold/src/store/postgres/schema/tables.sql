-- Layout 1: the tables. Nobody but the owner has rights on them; the functions are all there is.
-- The record of each name, in one visible row. `record` is what the model says, `fence` the token
-- of the exclusive hold, NULL from when its end was noticed. A row turns a page after 64 changes:
-- it goes on under the next epoch, so that versions that somebody's old snapshot keeps are not
-- walked again and again.
--
-- `quick_from_us`: from when the quick paths may give an idle record to somebody, NULL if they may
-- not; `quick_sum`: a sum over `record`, by which they see that it is not damaged. What they have
-- done since `record` was written is in the columns behind these, all NULL before that: the
-- exclusive hold that they gave (`given`, as a record whose times are zero), if it has not ended,
-- with the sweep's bounds; and the one before it, if it was released (`ended`). Whatever writes
-- `record` brings that into it, and empties them.
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
  ended_token bigint,
  ended_since_us bigint,
  ended_us bigint,
  PRIMARY KEY (name, epoch)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- The newest token of each name. Grants alone touch it, and fenced transactions share-lock it.
-- `released` is the token whose hold ends with a transaction that has committed; the next step on
-- the name brings that into the record.
CREATE TABLE leasehold.token (
  name text COLLATE "C",
  epoch bigint,
  token bigint NOT NULL,
  released bigint,
  PRIMARY KEY (name, epoch)
) WITH (fillfactor = 50);

-- Whether the server may have forgotten something. An unlogged table is empty after each crash and
-- after each promotion, and only then. `history` names the data that the row belongs to, so that one
-- out of a backup is not believed. From `grants_from_us` on something new may be granted.
-- `is_lossy`: somebody does not wait for the disk since then.
CREATE UNLOGGED TABLE leasehold.boot (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  history bigint NOT NULL,
  grants_from_us bigint NOT NULL,
  is_lossy boolean NOT NULL
);

-- Numbers of the whole store: `layout`; `forgotten`, the highest token of names that are gone; and
-- what the row above was at last: `history`, `grants_from`, `lossy`, and `longest`, the longest that
-- a lease may be.
CREATE TABLE leasehold.number (name text COLLATE "C" PRIMARY KEY, value bigint NOT NULL);
INSERT INTO leasehold.number VALUES ('layout', 1), ('forgotten', 0);
