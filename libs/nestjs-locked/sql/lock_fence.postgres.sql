-- The fence table for PostgreSQL 12 and later. One row for each key that was ever locked in a transaction.
CREATE TABLE IF NOT EXISTS lock_fence (lock_key text PRIMARY KEY, token bigint NOT NULL);

-- Rows may be deleted when they are much older than the longest transaction. A token is a time in microseconds:
-- DELETE FROM lock_fence WHERE token < (extract(epoch FROM now() - interval '7 days') * 1000000)::bigint;
