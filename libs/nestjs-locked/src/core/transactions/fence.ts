import { systemClock } from '../clock.js';
import type { Hold } from '../hold.js';
import {
  LockConfigError,
  LockFencedError,
  LockLostError,
  LockNotAcquiredError,
} from '../lock.errors.js';
import { unreachable } from '../unreachable.js';
import type { ClaimOutcome, DatabaseSession, TransactionBounds } from './database-session.js';
import { isMissingTable } from './sql-error.js';

/** A fence that lags behind the database is raised; somebody else can raise it again meanwhile. */
const MAX_CLAIMS = 3;
/** A claim can lose against another one that often before its transaction fails. */
const MAX_CONFLICTS = 8;

/** Another transaction has claimed a key since this one's snapshot was taken. Nothing was done: it can begin anew. */
export class ClaimConflict extends Error {
  override readonly name = 'ClaimConflict';
}

/** Begins a transaction anew as long as its claim meets another one. @throws the database's error at the cap */
export async function retryingConflicts<R>(begin: () => Promise<R>): Promise<R> {
  for (let conflicts = 0; ; conflicts++) {
    try {
      return await begin();
    } catch (error) {
      if (!(error instanceof ClaimConflict)) throw error;
      if (conflicts === MAX_CONFLICTS) throw error.cause;
    }
  }
}

/**
 * Claims the holds in the database: their fencing tokens are written into the fence table, whose rows stay locked
 * until the transaction has ended. Whoever has a lower token than the table is refused, and everybody else waits.
 *
 * After M. Kleppmann, "How to do distributed locking" (2016), with the check at the beginning of the transaction.
 *
 * @param holds in the order in which every transaction claims them
 * @throws LockFencedError if a newer holder was there · ClaimConflict · LockNotAcquiredError if the transaction of an
 * earlier holder is still open
 */
export async function claimFence(
  session: DatabaseSession,
  table: string,
  holds: readonly Hold[],
  bounds: TransactionBounds | undefined,
): Promise<void> {
  const startedAt = systemClock.now();
  for (let attempt = 1; ; attempt++) {
    const claims = holds.map(({ key, fencingToken }) => ({ key, token: fencingToken }));
    const outcome = await session.claim(table, claims, bounds).catch((error: unknown) => {
      throw isMissingTable(error) ? noTable(table, error) : error;
    });
    if (outcome.kind === 'claimed') return;
    await overcome(outcome, holds, attempt < MAX_CLAIMS, startedAt);
  }
}

function noTable(table: string, cause: unknown): LockConfigError {
  return new LockConfigError(
    `The fence table '${table}' does not exist in this database: create it (nestjs-locked/fence, or the files in nestjs-locked/sql), or name the connections that have it in fence.connections`,
    undefined,
    { cause },
  );
}

/** Does what can be done about a refusal, so that the claim can be tried again, or throws. */
async function overcome(
  outcome: Exclude<ClaimOutcome, { kind: 'claimed' }>,
  holds: readonly Hold[],
  mayRaise: boolean,
  startedAt: number,
): Promise<void> {
  switch (outcome.kind) {
    case 'fenced': {
      const { key, newest } = outcome;
      const hold = holds.find((candidate) => candidate.key === key) as Hold;
      const fenced = new LockFencedError(
        `Lock '${key}': the database has seen fencing token ${newest}, ours is ${hold.fencingToken}; a newer holder was there, nothing was written`,
        key,
        hold.fencingToken,
        newest,
      );
      if (!mayRaise) throw fenced;
      // Redis may have lost its numbers. It knows who the holder is: if that is us, it goes on from the database's.
      try {
        await hold.raiseFence(newest);
      } catch (error) {
        throw error instanceof LockLostError ? fenced : error;
      }
      return;
    }
    case 'conflict':
      throw new ClaimConflict('The transaction has to begin anew', { cause: outcome.cause });
    case 'blocked': {
      const { key } = holds[0] as Hold;
      throw new LockNotAcquiredError(
        `Lock '${key}' is ours, but the database still has the transaction of an earlier holder open`,
        key,
        Math.round(systemClock.now() - startedAt),
      );
    }
    default:
      return unreachable(outcome);
  }
}
