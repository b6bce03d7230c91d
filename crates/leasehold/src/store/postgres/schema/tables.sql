-- Layout 4: the tables. Roles that take locks may read and update `lease`, and read `boot`; other
-- roles use the functions.
--
-- `lease` has one row for each name in use, and for a minute after that. A grant locks the key of
-- the row, and nothing else does; `fence` shares that lock until its transaction ends.
--
-- `epoch` and `turn` count grants: each 64th grant begins a new epoch, which is a new entry in the
-- index. So a statement that finds its row by the index reads few of the old versions that a long
-- transaction elsewhere keeps.
-- `counter` is the newest token, or place in the queue. A token here is its time in microseconds.
-- `fence` is the token of the exclusive hold, or NULL once its end was noticed.
-- `hold` is the gate in the words of the model, and `queue` has the words of each waiter, if that is
-- all: one attempt holds, and others may wait. `used_until_us` is then the end of the gate.
-- `record` is the record of the model otherwise. A name that is free has none of them. While there
-- is a record, the name is in use until `used_until_us`, unless something changes.
-- From `free_from_us` on, nothing of the row counts but its counter.
CREATE TABLE leasehold.lease (
  name text COLLATE "C", epoch bigint NOT NULL DEFAULT 0, turn smallint NOT NULL DEFAULT 0,
  counter bigint NOT NULL, fence bigint,
  free_from_us bigint NOT NULL DEFAULT 0, used_until_us bigint NOT NULL DEFAULT 0,
  hold text, queue text[], record text,
  PRIMARY KEY (name, epoch)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- Holds that ended with a committed transaction. The next step on the name writes that end into its
-- row. This is another table so that nobody waits for that transaction: no step changes this table.
CREATE TABLE leasehold.released (name text COLLATE "C", fence bigint, PRIMARY KEY (name, fence));

-- Whether the server may have forgotten something. An unlogged table is empty after each crash and
-- after each promotion, and only then. `history` names the data to which the row belongs, so that a
-- row from a backup does not count. `made_in` is the table in which the row was made: the number
-- `tableoid` of a table out of a dump differs, and a step can compare it. From `grants_from_us` on,
-- new grants may be made.
CREATE UNLOGGED TABLE leasehold.boot (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  history bigint NOT NULL, grants_from_us bigint NOT NULL, made_in oid NOT NULL
);

-- Numbers of the whole store: `layout`; `forgotten`, the highest counter of all rows that were
-- removed, above which new names begin; and what `boot` says: `history` and `grants_from` are a
-- copy of its row, and `longest` is the longest possible lease.
CREATE TABLE leasehold.number (name text COLLATE "C" PRIMARY KEY, value bigint NOT NULL);
INSERT INTO leasehold.number VALUES ('layout', 4), ('forgotten', 1577836800000000);
