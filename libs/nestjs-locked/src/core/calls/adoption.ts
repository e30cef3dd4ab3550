import type { EngineParts } from '../lease/engine-parts.js';
import type { Acquires } from '../lease/request-user.js';
import { LockAbortedError, LockNotAcquiredError, LockNotAdoptedError } from '../lock.errors.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import type { LockStore } from '../store/lock-store.js';
import type { CallParts } from './acquisition.js';
import { CallTime } from './call-time.js';
import type { HandedOverLease } from './hand-off.js';
import { giveBack, ReentryLevel } from './reentry-level.js';
import { renewWhole } from './renew-whole.js';
import { isSuspect, settleSuspects } from './settle-suspects.js';

/**
 * Adopts the leases that another call has left, all or none: one after the other, in the same order everywhere, so that
 * the first key decides who gets all of them. What was adopted in vain is released.
 *
 * @param options with a `waitMs` of 0: nobody waits for a lease that was left to him
 * @returns one level for each key, in order; all of them are held, and their holds have begun
 * @throws LockNotAdoptedError · LockStoreError if the store does not answer: it is then unknown whether the leases can
 * still be adopted · LockAbortedError during shutdown, before anything is adopted
 */
export async function adoptLevels(
  { parts, queues, ambient }: CallParts,
  leases: readonly HandedOverLease[],
  options: ResolvedLockOptions,
): Promise<readonly ReentryLevel[]> {
  const [{ key: firstKey }] = leases as [HandedOverLease];
  if (queues.isClosed && ambient.holds().length === 0) throw closing(firstKey);
  const refusal = parts.store.refusalOf?.({ mode: 'exclusive' }, options.leaseMs);
  if (refusal !== undefined) throw refusal;
  const time = new CallTime(parts.clock, 0);
  const isOneOfSeveral = leases.length > 1;
  const levels: ReentryLevel[] = [];
  try {
    for (const lease of leases) {
      time.asksAgain();
      const terms = { key: lease.key, options, isOneOfSeveral, limits: time };
      levels.push(new ReentryLevel(await queues.adopt(terms, adopting(parts.store, lease))));
    }
    await complete(levels, options, parts, time);
  } catch (error) {
    giveBack(levels);
    if (!(error instanceof LockNotAcquiredError)) throw error;
    // Whoever has adopted the first is the only one that may have the others, which are of no use now.
    if (levels.length > 0) releaseUntouched(parts.store, leases.slice(levels.length + 1));
    throw notAdopted(error.key as string);
  }
  return levels;
}

/** Without an answer, they end with their time. */
function releaseUntouched(store: LockStore, leases: readonly HandedOverLease[]): void {
  for (const lease of leases) void store.release(lease);
}

/** An early lease of several may have ended, or may have become doubtful, before the last one was adopted. */
async function complete(
  levels: readonly ReentryLevel[],
  { renew }: ResolvedLockOptions,
  { clock }: EngineParts,
  time: CallTime,
): Promise<void> {
  if (levels.length > 1 && !renew) await renewWhole(levels, clock, time, undefined);
  if (levels.some(isSuspect)) await settleSuspects(levels, clock, time.answerBy, undefined);
  for (const { hold } of levels) hold.assertHeld();
  if (levels.length > 1) for (const { hold } of levels) hold.begin(clock.now());
}

/** Makes every request an adoption of this lease, so that no other one is ever taken for it. */
function adopting(store: LockStore, { token, used }: HandedOverLease): Acquires {
  return {
    async acquire({ key, token: newToken, leaseMs }) {
      const reply = await store.adopt({ key, token, newToken, leaseMs, used });
      return reply.kind === 'lost' ? { kind: 'busy', remainingMs: 0 } : reply;
    },
  };
}

function notAdopted(key: string): LockNotAdoptedError {
  return new LockNotAdoptedError(
    `Lock '${key}' was not adopted: its time (forMs) is over, it was adopted before, or an operator took it away; if the work must still be done, take the lock anew, and check what has been done already`,
    key,
  );
}

function closing(key: string): LockAbortedError {
  return new LockAbortedError(
    `Lock '${key}' was not adopted: the application is shutting down; another process can adopt it`,
    key,
  );
}
