-- The fence table for MySQL 8 and MariaDB 10.5, and later. One row for each key that was ever locked in a transaction.
CREATE TABLE IF NOT EXISTS lock_fence (lock_key VARBINARY(767) PRIMARY KEY, token bigint NOT NULL);

-- Rows may be deleted when they are much older than the longest transaction. A token is a time in microseconds:
-- DELETE FROM lock_fence WHERE token < (UNIX_TIMESTAMP() - 7 * 86400) * 1000000;
