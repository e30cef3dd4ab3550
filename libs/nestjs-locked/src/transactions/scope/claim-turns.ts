import { AsyncLocalStorage } from 'node:async_hooks';
import { Turns } from '../../core/calls/turns.js';
import { byBytes } from '../../core/keys/key-order.js';
import type { Hold } from '../../core/lease/hold.js';
import { LockInTransactionError, LockNotAcquiredError } from '../../core/lock.errors.js';
import { systemClock } from '../../core/time/clock.js';
import type { GuardingHold } from './guarding-hold.js';

const TURNS = new WeakMap<Hold, Map<string, Turns>>();
/** The turns that the present async context has had. Two adapters may see the same transaction being opened. */
const TAKEN = new AsyncLocalStorage<readonly Turn[]>();
/** Who waits for a turn now. */
const WAITING = new Set<Waiting>();

/** A turn that a transaction has until it has ended. */
export interface Turn {
  readonly turns: Turns;
  readonly connection: string;
  isOver: boolean;
}

/** A transaction that waits for a turn before it is opened, inside of those that have the others. */
interface Waiting {
  readonly has: readonly Turn[];
  readonly wants: Turns;
}

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
    return await inTurns(taken, work);
  } finally {
    leaveTurns(taken);
  }
}

/** Runs work that belongs to the transaction that has these turns. */
export function inTurns<R>(taken: readonly Turn[], work: () => R): R {
  return taken.length === 0 ? work() : TAKEN.run([...turnsHere(), ...taken], work);
}

/** Without those that are over: a transaction may begin the next one, without an end. */
function turnsHere(): readonly Turn[] {
  return (TAKEN.getStore() ?? []).filter(({ isOver }) => !isOver);
}

export function leaveTurns(taken: readonly Turn[]): void {
  for (const turn of taken) {
    turn.isOver = true;
    turn.turns.leave();
  }
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
 * @throws LockNotAcquiredError if the others take longer than the lease, or than the call was willing to wait ·
 * LockInTransactionError if they would wait for each other
 */
export async function takeTurns(
  holds: readonly GuardingHold[],
  connection: string,
): Promise<readonly Turn[]> {
  const taken: Turn[] = [];
  const around = turnsHere();
  for (const hold of inOneOrder(holds)) {
    const turns = turnsOf(hold, connection);
    if (around.some((turn) => turn.turns === turns)) continue;
    const waiting: Waiting = { has: [...around, ...taken], wants: turns };
    const opposite = waitsFor(turns, waiting.has);
    if (opposite !== undefined) {
      leaveTurns(taken);
      throw new LockInTransactionError(
        `A transaction on connection '${connection}' cannot be opened inside the one on '${opposite.connection}' under lock '${hold.key}': in another branch of the call they are nested the other way round, and each would wait for the other; nest the transactions of several databases in one order, or run the branches one after the other`,
        hold.key,
      );
    }
    const limitMs = Math.max(hold.callWaitMs, hold.options.leaseMs);
    const askedAt = systemClock.now();
    WAITING.add(waiting);
    const outcome = await turns
      .enter(systemClock, limitMs)
      .finally(() => void WAITING.delete(waiting));
    if (outcome !== 'entered') {
      leaveTurns(taken);
      throw new LockNotAcquiredError(
        `Lock '${hold.key}' is ours, but other transactions under it have not ended within ${limitMs} ms: with the fence on, those under one lock run one after the other, and must not wait for each other inside; one that belongs to an open one has to use it, and not a connection of its own (with TypeORM, the manager of its query runner)`,
        hold.key,
        Math.round(systemClock.now() - askedAt),
      );
    }
    taken.push({ turns, connection, isOver: false });
  }
  return taken;
}

/**
 * Whether a transaction that has this turn waits, directly or through others, for one of those that we have.
 * @returns ours that it waits for
 */
function waitsFor(
  turns: Turns,
  ours: readonly Turn[],
  seen: Set<Waiting> = new Set(),
): Turn | undefined {
  for (const waiting of WAITING) {
    const hasIt = waiting.has.some((turn) => !turn.isOver && turn.turns === turns);
    if (!hasIt || seen.has(waiting)) continue;
    seen.add(waiting);
    const found =
      ours.find((turn) => turn.turns === waiting.wants) ?? waitsFor(waiting.wants, ours, seen);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** One order for all transactions, so that no two of them can each have a turn for which the other one waits. */
function inOneOrder(holds: readonly GuardingHold[]): readonly Hold[] {
  return [...holds]
    .sort(
      (a, b) => byBytes(a.locks.orderedBy, b.locks.orderedBy) || byBytes(a.hold.key, b.hold.key),
    )
    .map(({ hold }) => hold);
}
