-- The fence table for MySQL 8 and MariaDB 10.5, and later. One row for each key that was ever locked in a transaction.
CREATE TABLE IF NOT EXISTS lock_fence (lock_key VARBINARY(767) PRIMARY KEY, token bigint NOT NULL);

-- Rows of keys that nobody has locked for days may be deleted: pruneFenceTable of nestjs-locked/transactions does it safely.
