import type { LockHolder, LockInfo } from '../core/lock-info.js';
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

export function shownLock(
  lock: Omit<LockInfo, 'queue'> & { readonly oldestWaitMs: number },
): ShownLock {
  const { key, state, leaseId, holder, since, remainingMs, fencingToken, waiters } = lock;
  return {
    key,
    state,
    leaseId,
    holder: holder === undefined ? null : shownHolder(holder),
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
    lock: shownLock({ ...lock, oldestWaitMs: first?.waitedMs ?? 0 }),
    queue: lock.queue.map((waiter) => ({ ...shownHolder(waiter), waitedMs: waiter.waitedMs })),
  };
}
