-- The fence table for PostgreSQL 12 and later. One row for each key that was ever locked in a transaction.
CREATE TABLE IF NOT EXISTS lock_fence (lock_key text PRIMARY KEY, token bigint NOT NULL);

-- Rows of keys that nobody has locked for days may be deleted: pruneFenceTable of nestjs-locked/transactions does it safely.
