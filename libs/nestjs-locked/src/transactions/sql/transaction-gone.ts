import { LockInTransactionError } from '../../core/lock.errors.js';

/** The error if the database reports before COMMIT that there is no transaction to commit. */
export function transactionGone(): LockInTransactionError {
  return new LockInTransactionError(
    'The database has ended the transaction before its COMMIT: an error was swallowed that has made it fail (a deadlock on MySQL), a statement has ended it (COMMIT, ROLLBACK, PREPARE TRANSACTION; DDL on MySQL), or its connection was given back; let errors fail the body, and leave the end of the transaction to the code that has opened it',
  );
}
