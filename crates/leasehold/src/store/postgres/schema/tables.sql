-- Layout 1: the tables. Nobody but the owner has rights on them; the functions are all there is.
-- The record of each name, in one visible row. `record` is what the model says, `fence` the token
-- of the exclusive hold, NULL from when its end was noticed. A row turns a page after 64 changes:
-- it goes on under the next epoch, so that versions that somebody's old snapshot keeps are not
-- walked again and again.
CREATE TABLE leasehold.lock (
  name text COLLATE "C",
  epoch bigint,
  changes int NOT NULL,
  last_token bigint NOT NULL,
  fence bigint,
  idle boolean NOT NULL,
  collect_at_us bigint NOT NULL,
  record bytea NOT NULL,
  PRIMARY KEY (name, epoch)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- The newest token of each name. Grants alone touch it, and fenced transactions share-lock it.
CREATE TABLE leasehold.token (
  name text COLLATE "C",
  epoch bigint,
  token bigint NOT NULL,
  PRIMARY KEY (name, epoch)
) WITH (fillfactor = 50);

-- Numbers of the whole store: `layout`, and `forgotten`, the highest token of names that are gone.
CREATE TABLE leasehold.number (name text COLLATE "C" PRIMARY KEY, value bigint NOT NULL);
INSERT INTO leasehold.number VALUES ('layout', 1), ('forgotten', 0);
