import { LockInTransactionError } from '../lock.errors.js';

/** What is known about the transaction in which a lock was asked for. */
export interface Circumstances {
  readonly caller: string;
  readonly key: string;
  readonly connection: string;
  readonly ageMs: number;
  readonly timeoutMs: number | undefined;
}

const WAYS_OUT =
  'put @Locked above @Transactional, or lock the method that opens the transaction, or set insideTransaction: ';

/** Why a lock cannot be taken inside the open transaction, and what to do about it. */
export type Refusal =
  'rejected' | 'not-restartable' | 'stale-snapshot' | 'savepoint' | 'committing' | 'own-claim';

export function refusal(why: Refusal, circumstances: Circumstances): LockInTransactionError {
  const { caller, key, connection, ageMs } = circumstances;
  const where = connection === 'default' ? '' : `on connection '${connection}', `;
  const what = `${caller}: lock '${key}' was asked for inside an open database transaction (${where}started ${Math.round(ageMs)} ms ago)`;
  return new LockInTransactionError(`${what}. ${reason(why, circumstances)}`, key);
}

function reason(why: Refusal, { timeoutMs }: Circumstances): string {
  switch (why) {
    case 'rejected': {
      const budget = timeoutMs === undefined ? '' : ` and burn the transaction's ${timeoutMs} ms`;
      return `Waiting here would keep a connection${budget}, and what was read before the lock may be stale; ${WAYS_OUT}'restart'`;
    }
    case 'not-restartable':
      return `It was opened by hand, so it cannot be restarted; ${WAYS_OUT}'join', or open it with a callback`;
    case 'stale-snapshot':
      return `Its isolation level keeps the snapshot of its first read, which may be older than the lock: an update could be lost without an error; ${WAYS_OUT}'restart', or use READ COMMITTED`;
    case 'savepoint':
      return `The fence cannot be claimed inside a savepoint, whose rollback would undo the claim; ${WAYS_OUT}'restart'`;
    case 'committing':
      return 'It is being committed: the work that asks was not awaited; await it, or lock outside the transaction';
    case 'own-claim':
      return 'The transaction around it has claimed the same key in the same database, and each would wait for the other; use the transaction that is open (REQUIRED or NESTED), or open the second one when the first has ended';
  }
}
