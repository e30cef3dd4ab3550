import { AsyncLocalStorage } from 'node:async_hooks';
import { Turns } from '../../core/calls/turns.js';
import { byBytes } from '../../core/keys/key-order.js';
import type { Hold } from '../../core/lease/hold.js';
import { LockNotAcquiredError } from '../../core/lock.errors.js';
import { systemClock } from '../../core/time/clock.js';
import type { GuardingHold } from './guarding-hold.js';

const TURNS = new WeakMap<Hold, Map<string, Turns>>();
/** The turns that the present async context has: two adapters may see the same transaction being opened. */
const TAKEN = new AsyncLocalStorage<readonly Turns[]>();

/** Runs the work in a turn. @throws as `takeTurns` */
export function inTurn<T>(
  holds: readonly GuardingHold[],
  connection: string,
  work: () => Promise<T>,
): Promise<T> {
  if (holds.length === 0) return work();
  return workInTurn(holds, connection, work);
}

async function workInTurn<T>(
  holds: readonly GuardingHold[],
  connection: string,
  work: () => Promise<T>,
): Promise<T> {
  const taken = await takeTurns(holds, connection);
  try {
    return await TAKEN.run([...(TAKEN.getStore() ?? []), ...taken], work);
  } finally {
    leaveTurns(taken);
  }
}

export function leaveTurns(taken: readonly Turns[]): void {
  for (const turns of taken) turns.leave();
}

function turnsOf(hold: Hold, connection: string): Turns {
  let ofHold = TURNS.get(hold);
  if (ofHold === undefined) TURNS.set(hold, (ofHold = new Map<string, Turns>()));
  let turns = ofHold.get(connection);
  if (turns === undefined) ofHold.set(connection, (turns = new Turns()));
  return turns;
}

/**
 * Transactions under the same hold that have to claim it run one after the other in the database, where the second one
 * would wait with a connection, and would fail above READ COMMITTED. So they wait here, before they are opened.
 *
 * @param holds the holds that will be claimed
 * @returns the turns, to be left at the end of the transaction
 * @throws LockNotAcquiredError if the others take longer than the lease, or than the call was willing to wait
 */
export async function takeTurns(
  holds: readonly GuardingHold[],
  connection: string,
): Promise<readonly Turns[]> {
  const taken: Turns[] = [];
  for (const hold of inOneOrder(holds)) {
    const turns = turnsOf(hold, connection);
    if (TAKEN.getStore()?.includes(turns) === true) continue;
    const limitMs = Math.max(hold.options.waitMs, hold.options.leaseMs);
    const askedAt = systemClock.now();
    if ((await turns.enter(systemClock, limitMs)) !== 'entered') {
      leaveTurns(taken);
      throw new LockNotAcquiredError(
        `Lock '${hold.key}' is ours, but other transactions under it have not ended within ${limitMs} ms: with the fence on, those under one lock run one after the other, and must not wait for each other inside`,
        hold.key,
        Math.round(systemClock.now() - askedAt),
      );
    }
    taken.push(turns);
  }
  return taken;
}

/** One order for all transactions, so that no two of them can each have a turn for which the other one waits. */
function inOneOrder(holds: readonly GuardingHold[]): readonly Hold[] {
  return [...holds]
    .sort(
      (a, b) => byBytes(a.locks.orderedBy, b.locks.orderedBy) || byBytes(a.hold.key, b.hold.key),
    )
    .map(({ hold }) => hold);
}
