import { LockInTransactionError } from '../../core/lock.errors.js';

/** The transaction in which a request was refused. */
export interface Circumstances {
  readonly callSite: string;
  /** Undefined if the request was not for a lock. */
  readonly key: string | undefined;
  readonly connection: string;
  readonly ageMs: number;
  readonly timeoutMs: number | undefined;
}

const WAYS_OUT =
  'put @Locked above @Transactional, or lock the method that opens the transaction, or set insideTransaction: ';

/** Why a request in the open transaction is refused; each has its message with the way out. */
export type Refusal =
  | 'rejected'
  | 'by-hand'
  | 'hooks'
  | 'outlived'
  | 'opened-twice'
  | 'stale-snapshot'
  | 'unknown-level'
  | 'savepoint'
  | 'committing'
  | 'failing'
  | 'ended'
  | 'unawaited-branch'
  | 'open-savepoint'
  | 'endless-branch'
  | 'own-claim'
  | 'begun-inside'
  | 'left-uncommitted'
  | 'ends-it'
  | 'rolled-back-inside'
  | 'ended-by-nested'
  | 'has-failed'
  | 'isolation';

export function refusal(why: Refusal, circumstances: Circumstances): LockInTransactionError {
  const { callSite, key, connection, ageMs } = circumstances;
  const where = connection === 'default' ? '' : `on connection '${connection}', `;
  const which = `database transaction (${where}started ${Math.round(ageMs)} ms ago)`;
  const what = said(why, callSite, key);
  return new LockInTransactionError(`${what} ${which}. ${reason(why, circumstances)}`, key);
}

function said(why: Refusal, callSite: string, key: string | undefined): string {
  if (why === 'left-uncommitted') return 'Nothing was written of a';
  if (key === undefined) return `${callSite} was refused in a`;
  if (why === 'own-claim') return `${callSite} under lock '${key}' was refused inside an open`;
  return `${callSite}: lock '${key}' was requested inside an open`;
}

function reason(why: Refusal, { timeoutMs }: Circumstances): string {
  switch (why) {
    case 'rejected': {
      const budget = timeoutMs === undefined ? '' : ` and burn the transaction's ${timeoutMs} ms`;
      return `Waiting here would keep a connection${budget}, and the lock would not protect what was read before it; ${WAYS_OUT}'restart'`;
    }
    case 'by-hand':
      return `It was opened by hand, so it cannot be restarted; ${WAYS_OUT}'join', or open it with a callback`;
    case 'hooks':
      return `typeorm-transactional has opened it, and would also run the commit hooks of the run that is rolled back; pass { runInTransaction } of typeorm-transactional to lockAwareDataSource, or put @Locked above @Transactional`;
    case 'outlived':
      return `It cannot be restarted, because the transaction around it has ended already; await it inside of that one`;
    case 'opened-twice':
      return `It cannot be restarted, because its opening function has already opened another one, which may be committed; call run(…) once for each transaction`;
    case 'stale-snapshot':
      return `Its isolation level keeps the snapshot of its first read, which may be older than the lock: an update could be lost without an error; ${WAYS_OUT}'restart', or use READ COMMITTED`;
    case 'unknown-level':
      return `Its isolation level is not known, because MySQL and MariaDB tell only that of the session, which the level of one transaction does not change. It may keep the snapshot of its first read, which may be older than the lock: open it at READ COMMITTED, and name that level where the library sees it: { isolationLevel } of the ORM, or run(open, { isolation }) of lockAwareTransactions; or set insideTransaction: 'restart'`;
    case 'savepoint':
      return `The fence cannot be claimed inside a savepoint, whose rollback would undo the claim; ${WAYS_OUT}'restart'`;
    case 'committing':
      return 'It is being committed: the work that asks was not awaited; await it, or lock outside the transaction';
    case 'failing':
      return 'It is being rolled back, because another branch of it has failed; let a transaction fail only when all its branches have ended (Promise.allSettled)';
    case 'ended':
      return 'It has ended already, or is being committed: the work was not awaited; await it inside the transaction';
    case 'unawaited-branch':
      return 'It cannot commit, because a locked call inside it still runs: only a part of it would be committed; await every call in the body of the transaction';
    case 'open-savepoint':
      return 'It cannot commit, because a nested transaction (a savepoint) is still open in it: only a part of it would be committed; await every nested transaction in the body of the transaction, and let none outlive another one that fails (Promise.allSettled)';
    case 'endless-branch':
      return 'It has failed, or was to be restarted, while a locked call in another branch ran, which has not ended in 5000 ms; end the branches of a transaction together (Promise.allSettled), or lock outside the transaction';
    case 'own-claim':
      return 'The transaction around it has claimed the same key in the same database, and each would wait for the other; use the transaction that is open (REQUIRED, or NESTED where that is a savepoint, which it is not with typeorm-transactional; with TypeORM its own manager, because a plain repository.save() opens another one), open the second one when the first has ended, or let it do without the fence: unfenced(() => …) of nestjs-locked/transactions, for what does not need the lock, such as an audit row';
    case 'begun-inside':
      return 'Its connection was in the middle of another transaction, which its former user has neither committed nor rolled back, so that both would be committed together, or none. That connection is closed, and what was left open is rolled back; await every nested transaction (a savepoint) in the body of the transaction, and give no connection back before COMMIT or ROLLBACK was answered';
    case 'left-uncommitted':
      return 'Its query runner was released before its COMMIT, or its connection has died, which has rolled it back: the last commitTransaction() has ended a nested transaction (a savepoint) in it; commit as often as you start, or call rollbackTransaction() for what is not to be written';
    case 'ends-it':
      return 'It would end the transaction (COMMIT, END, PREPARE TRANSACTION, or ROLLBACK among other statements), which only the code that has opened it may do under a lock; return from the body to commit, throw to roll back, or use a savepoint';
    case 'rolled-back-inside':
      return 'Its body has rolled it back with a statement of its own, so nothing of it is written, and what comes after that would be written on its own; throw to roll back, or use a savepoint';
    case 'ended-by-nested':
      return 'A nested transaction in it would have ended it wholly, because its savepoint could not be opened, or was ended by its body, so it can only be rolled back; let the errors of its statements and of its nested transactions reach the code that rolls back';
    case 'has-failed':
      return 'Its body, or what guards it (the locks, the claim of the fence), has failed, so it can only be rolled back; let that error reach the code that rolls back';
    case 'isolation':
      return 'The claim of the fence, or the time-outs, were sent before; give the isolation level when the transaction is opened';
  }
}
