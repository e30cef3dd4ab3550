import { LockInTransactionError } from '../../core/lock.errors.js';

/** The database has said before the COMMIT that there is no transaction that could be committed. */
export function transactionGone(): LockInTransactionError {
  return new LockInTransactionError(
    'The database has ended the transaction before its COMMIT: an error was swallowed that has made it fail (a deadlock on MySQL), a statement has ended it (COMMIT, ROLLBACK, PREPARE TRANSACTION; DDL on MySQL), or its connection was given back; let errors fail the body, and leave the end of the transaction to the code that has opened it',
  );
}
