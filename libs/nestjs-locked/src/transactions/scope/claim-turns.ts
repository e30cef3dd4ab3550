import { AsyncLocalStorage } from 'node:async_hooks';
import { byBytes } from '../../core/keys/key-order.js';
import { LockInTransactionError, LockNotAcquiredError } from '../../core/lock.errors.js';
import type { Hold } from '../../core/queue/hold.js';
import { systemClock } from '../../core/time/clock.js';
import { type Claimant, ClaimQueue } from './claim-queue.js';
import type { GuardingHold } from './guarding-hold.js';
import type { TransactionDescription } from './transaction-description.js';

const QUEUES = new WeakMap<Hold, Map<string, ClaimQueue>>();
/** The turns that the present async context has had. Two adapters may see the same transaction being opened. */
const TAKEN = new AsyncLocalStorage<readonly Turn[]>();
/** Who waits for a turn now. */
const WAITING = new Set<Waiting>();

/** A turn that a transaction has until it has ended, unless another one takes it before this one is open. */
export interface Turn extends Claimant {
  readonly hold: Hold;
  readonly queue: ClaimQueue;
  readonly connection: string;
  isConnected: boolean;
  isOver: boolean;
}

/** What of a transaction is known before it is opened. */
type Opened = Pick<TransactionDescription, 'connection' | 'isConnected'>;

/** A transaction that waits for a turn before it is opened, inside of those that have the others. */
interface Waiting {
  readonly has: readonly Turn[];
  readonly wants: ClaimQueue;
}

/** Runs the work in a turn. @throws as `takeTurns` */
export function inTurn<T>(
  holds: readonly GuardingHold[],
  opened: Opened,
  work: (taken: readonly Turn[]) => Promise<T>,
): Promise<T> {
  if (holds.length === 0) return work([]);
  return workInTurn(holds, opened, work);
}

async function workInTurn<T>(
  holds: readonly GuardingHold[],
  opened: Opened,
  work: (taken: readonly Turn[]) => Promise<T>,
): Promise<T> {
  const taken = await takeTurns(holds, opened);
  try {
    return await inTurns(taken, () => work(taken));
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
    turn.queue.leave(turn);
  }
}

/**
 * The transaction is open, and is about to claim: from now on, nobody takes its turns any more.
 *
 * @returns false if one that had a connection before has taken one of them
 */
export function areKept(taken: readonly Turn[]): boolean {
  for (const turn of taken) turn.isConnected = true;
  return taken.every((turn) => turn.queue.isTurnOf(turn));
}

/** Waits for turns of which one was taken away: for all of them, so that the order stays. @throws as `takeTurns` */
export async function takeAgain(taken: readonly Turn[]): Promise<void> {
  for (const turn of taken) turn.queue.leave(turn);
  const around = turnsHere().filter((turn) => !taken.includes(turn));
  for (const [i, turn] of taken.entries()) await take(turn, [...around, ...taken.slice(0, i)]);
}

function queueOf(hold: Hold, connection: string): ClaimQueue {
  let ofHold = QUEUES.get(hold);
  if (ofHold === undefined) QUEUES.set(hold, (ofHold = new Map<string, ClaimQueue>()));
  let queue = ofHold.get(connection);
  if (queue === undefined) ofHold.set(connection, (queue = new ClaimQueue()));
  return queue;
}

/**
 * Transactions under the same hold that have to claim it run one after the other in the database, where the second one
 * would wait with a connection, and would fail above READ COMMITTED. So they wait here, before they are opened.
 *
 * One that is connected before takes the turn of one that is not: that one may wait, in the pool, for its connection.
 *
 * @param holds the holds that will be claimed
 * @returns the turns, to be left at the end of the transaction; `areKept` says whether they still are its own
 * @throws LockNotAcquiredError if the others take longer than the lease, or than the call was willing to wait ·
 * LockInTransactionError if they would wait for each other
 */
export async function takeTurns(
  holds: readonly GuardingHold[],
  { connection = 'default', isConnected = false }: Opened,
): Promise<readonly Turn[]> {
  const taken: Turn[] = [];
  const around = turnsHere();
  for (const hold of inOneOrder(holds)) {
    const queue = queueOf(hold, connection);
    if (around.some((turn) => turn.queue === queue)) continue;
    const turn: Turn = { hold, queue, connection, isConnected, isOver: false };
    try {
      await take(turn, [...around, ...taken]);
    } catch (error) {
      leaveTurns(taken);
      throw error;
    }
    taken.push(turn);
  }
  return taken;
}

/** @param has the turns inside of which it waits @throws as `takeTurns` */
async function take(turn: Turn, has: readonly Turn[]): Promise<void> {
  const { hold, queue, connection } = turn;
  const opposite = waitsFor(queue, has);
  if (opposite !== undefined) {
    throw new LockInTransactionError(
      `A transaction on connection '${connection}' cannot be opened inside the one on '${opposite.connection}' under lock '${hold.key}': in another branch of the call they are nested the other way round, and each would wait for the other; nest the transactions of several databases in one order, or run the branches one after the other`,
      hold.key,
    );
  }
  const limitMs = Math.max(hold.callWaitMs, hold.options.leaseMs);
  const askedAt = systemClock.now();
  const waiting: Waiting = { has, wants: queue };
  WAITING.add(waiting);
  const isTurn = await queue
    .enter(turn, systemClock, limitMs)
    .finally(() => void WAITING.delete(waiting));
  if (isTurn) return;
  throw new LockNotAcquiredError(
    `Lock '${hold.key}' is ours, but other transactions under it have not ended within ${limitMs} ms: with the fence on, those under one lock run one after the other, and must not wait for each other inside; one that belongs to an open one has to use it, and not a connection of its own (with TypeORM, the manager of its query runner)`,
    hold.key,
    Math.round(systemClock.now() - askedAt),
  );
}

/**
 * Whether a transaction that has this turn waits, directly or through others, for one of those that we have.
 * @returns ours that it waits for
 */
function waitsFor(
  queue: ClaimQueue,
  ours: readonly Turn[],
  seen: Set<Waiting> = new Set(),
): Turn | undefined {
  for (const waiting of WAITING) {
    const hasIt = waiting.has.some((turn) => turn.queue === queue && queue.isTurnOf(turn));
    if (!hasIt || seen.has(waiting)) continue;
    seen.add(waiting);
    const found =
      ours.find((turn) => turn.queue === waiting.wants) ?? waitsFor(waiting.wants, ours, seen);
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
