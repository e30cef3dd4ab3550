import type { LockHolder, LockInfo } from '../core/lock-info.js';
import type { OverviewLock } from '../core/lock-overview.js';
import type { ShownHolder, ShownLock, ShownQueue } from './dashboard-messages.js';

/** More of a text, whoever wrote it, is not sent. */
const LONGEST = 300;

/** The public forms of locks as JSON can have them. */
export function shownHolder({ host, pid, processId, label }: LockHolder): ShownHolder {
  return { host: cut(host), pid: pid ?? null, processId, label: cut(label) };
}

/** As much of a text as is shown. */
export function cut(text: string | undefined): string | null {
  if (text === undefined) return null;
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

export function shownLock(lock: Omit<OverviewLock, 'queue'>): ShownLock {
  const { key, state, mode, leaseId, holder, since, remainingMs, fencingToken, waiters } = lock;
  return {
    key,
    state,
    mode: mode ?? null,
    leaseId,
    holder: holder === undefined ? null : shownHolder(holder),
    leases: lock.leases,
    since: since?.getTime() ?? null,
    remainingMs: remainingMs === Infinity ? null : remainingMs,
    fencingToken: fencingToken ?? null,
    waiters,
    oldestWaitMs: lock.oldestWaitMs,
  };
}

export function shownQueue(lock: LockInfo): ShownQueue {
  const [first] = lock.queue;
  return {
    lock: shownLock({
      ...lock,
      oldestWaitMs: first?.waitedMs ?? 0,
      leases: lock.holders.length,
    }),
    holders: lock.holders.map(shownHolder),
    queue: lock.queue.map((waiter) => ({ ...shownHolder(waiter), waitedMs: waiter.waitedMs })),
  };
}
