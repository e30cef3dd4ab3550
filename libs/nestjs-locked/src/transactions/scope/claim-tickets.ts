import { ContextVariable } from '../../core/context-variable.js';
import { byBytes } from '../../core/keys/key-order.js';
import { LockInTransactionError, LockNotAcquiredError } from '../../core/lock.errors.js';
import type { Hold } from '../../core/queue/hold.js';
import { systemClock } from '../../core/time/clock.js';
import { type Claimant, ClaimQueue } from './claim-queue.js';
import type { GuardingHold } from './guarding-hold.js';
import type { TransactionDescription } from './transaction-description.js';

const QUEUES = new WeakMap<Hold, Map<string, ClaimQueue>>();
/** The tickets of the current async context, because two adapters may see the same transaction being opened. */
const OWN = new ContextVariable<readonly Ticket[]>();
/** The transactions whose ticket is not yet first in its queue. */
const WAITING = new Set<Waiting>();

/** The position of a transaction in the queue for claims of the same hold on the same connection. */
export interface Ticket extends Claimant {
  readonly hold: Hold;
  readonly queue: ClaimQueue;
  readonly connection: string;
  isConnected: boolean;
  isOver: boolean;
}

/** The part of a transaction known before it is opened. */
type Opened = Pick<TransactionDescription, 'connection' | 'isConnected'>;

/** A transaction that waits in a queue before it is opened, with its tickets for other queues. */
interface Waiting {
  readonly has: readonly Ticket[];
  readonly wants: ClaimQueue;
}

/** Runs the work when it is first in all of its queues. @throws as `drawTickets` */
export function withTickets<T>(
  holds: readonly GuardingHold[],
  opened: Opened,
  work: (taken: readonly Ticket[]) => Promise<T>,
): Promise<T> {
  if (holds.length === 0) return work([]);
  return workWithTickets(holds, opened, work);
}

async function workWithTickets<T>(
  holds: readonly GuardingHold[],
  opened: Opened,
  work: (taken: readonly Ticket[]) => Promise<T>,
): Promise<T> {
  const taken = await drawTickets(holds, opened);
  try {
    return await inContextOf(taken, () => work(taken));
  } finally {
    returnTickets(taken);
  }
}

/** Runs work of the transaction with these tickets. */
export function inContextOf<R>(taken: readonly Ticket[], work: () => R): R {
  return taken.length === 0 ? work() : OWN.run([...ticketsHere(), ...taken], work);
}

/** Omits tickets that are over, because transactions may start one another endlessly. */
function ticketsHere(): readonly Ticket[] {
  return (OWN.get() ?? []).filter(({ isOver }) => !isOver);
}

export function returnTickets(taken: readonly Ticket[]): void {
  for (const ticket of taken) {
    ticket.isOver = true;
    ticket.queue.leave(ticket);
  }
}

/**
 * Called when the transaction is open and about to claim: from now on, it cannot be overtaken.
 *
 * @returns false if a transaction that had a connection earlier has overtaken it
 */
export function areFirst(taken: readonly Ticket[]): boolean {
  for (const ticket of taken) ticket.isConnected = true;
  return taken.every((ticket) => ticket.queue.isFirst(ticket));
}

/** Queues again after being overtaken: for all holds, to keep the order. @throws as `drawTickets` */
export async function drawAgain(taken: readonly Ticket[]): Promise<void> {
  for (const ticket of taken) ticket.queue.leave(ticket);
  const around = ticketsHere().filter((ticket) => !taken.includes(ticket));
  for (const [i, ticket] of taken.entries()) await draw(ticket, [...around, ...taken.slice(0, i)]);
}

function queueOf(hold: Hold, connection: string): ClaimQueue {
  let ofHold = QUEUES.get(hold);
  if (ofHold === undefined) QUEUES.set(hold, (ofHold = new Map<string, ClaimQueue>()));
  let queue = ofHold.get(connection);
  if (queue === undefined) ofHold.set(connection, (queue = new ClaimQueue()));
  return queue;
}

/**
 * Makes transactions that have to claim the same hold wait here before they are opened. In the database, which runs
 * them one after the other, the second one would occupy a connection, and would fail above READ COMMITTED. Claims of
 * readers do not wait for each other.
 *
 * A connected transaction overtakes one without a connection, which may be waiting for that connection in the pool.
 *
 * @param holds the holds to claim
 * @returns the tickets, all of them first, to return at the end of the transaction; `areFirst` says whether they still
 * are
 * @throws LockNotAcquiredError if the others take longer than the lease or the call's `waitMs` · LockInTransactionError
 * if they would wait for each other
 */
export async function drawTickets(
  holds: readonly GuardingHold[],
  { connection = 'default', isConnected = false }: Opened,
): Promise<readonly Ticket[]> {
  const taken: Ticket[] = [];
  const around = ticketsHere();
  for (const hold of inOneOrder(holds)) {
    const queue = queueOf(hold, connection);
    if (around.some((ticket) => ticket.queue === queue)) continue;
    const ticket: Ticket = { hold, queue, connection, isConnected, isOver: false };
    try {
      await draw(ticket, [...around, ...taken]);
    } catch (error) {
      returnTickets(taken);
      throw error;
    }
    taken.push(ticket);
  }
  return taken;
}

/** @param has the tickets that it keeps while it waits @throws as `drawTickets` */
async function draw(ticket: Ticket, has: readonly Ticket[]): Promise<void> {
  const { hold, queue, connection } = ticket;
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
  const isFirst = await queue
    .enter(ticket, systemClock, limitMs)
    .finally(() => void WAITING.delete(waiting));
  if (isFirst) return;
  throw new LockNotAcquiredError(
    `Lock '${hold.key}' is ours, but other transactions under it have not ended within ${limitMs} ms: with the fence on, transactions under one lock run one after the other and must not wait for each other; work that belongs to an open transaction must use that, not a separate connection (with TypeORM, the manager of its query runner)`,
    hold.key,
    Math.round(systemClock.now() - askedAt),
  );
}

/**
 * Whether the transaction that is first in this queue waits, directly or through others, behind one of our tickets.
 * @returns our ticket behind which it waits
 */
function waitsFor(
  queue: ClaimQueue,
  ours: readonly Ticket[],
  seen: Set<Waiting> = new Set(),
): Ticket | undefined {
  for (const waiting of WAITING) {
    const hasIt = waiting.has.some((ticket) => ticket.queue === queue && queue.isFirst(ticket));
    if (!hasIt || seen.has(waiting)) continue;
    seen.add(waiting);
    const found =
      ours.find((ticket) => ticket.queue === waiting.wants) ?? waitsFor(waiting.wants, ours, seen);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** One order for all transactions, so that no two can each be first where the other waits. */
function inOneOrder(holds: readonly GuardingHold[]): readonly Hold[] {
  return holds
    .filter(({ hold }) => !hold.isShared && !hold.isPermit)
    .sort(
      (a, b) => byBytes(a.locks.orderedBy, b.locks.orderedBy) || byBytes(a.hold.key, b.hold.key),
    )
    .map(({ hold }) => hold);
}
