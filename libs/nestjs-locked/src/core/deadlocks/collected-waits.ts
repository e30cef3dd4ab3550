import type { LockInfo, LockWait } from '../lock-info.js';
import type { AskedHolders } from '../lock-overview.js';
import { leaseIdOf } from '../store/shared-value.js';
import type { AskedHolder, HolderQuestions } from './holder-questions.js';
import { withCall } from './present-call.js';
import { waitName } from './wait-name.js';

/** How many questions are under way at once. */
const ASKED_AT_ONCE = 16;

/** A held lock. */
type Held = Pick<LockInfo, 'key' | 'holder' | 'waiters'>;

/** What the processes have said, and which did not. */
export interface CollectedWaits extends AskedHolders {
  /** Of how many locks it is unknown, because their process has not answered. */
  readonly silent: number;
}

/**
 * Asks what the calls wait for that hold a lock which others want. A process that has not answered one question is not
 * asked again: it may have thousands of locks, and each question takes a second then.
 * @throws LockStoreError
 */
export async function collectedWaits(
  questions: Pick<HolderQuestions, 'ask'>,
  locks: AsyncIterable<Held> | Iterable<Held>,
): Promise<CollectedWaits> {
  const found = new Map<string, LockWait>();
  const silentProcesses = new Set<string>();
  const holders = new Map<string, AskedHolder>();
  let silent = 0;
  const ask = async (key: string, processId: string): Promise<void> => {
    const holder = await questions.ask(key);
    if (holder === undefined) return;
    holders.set(key, holder);
    for (const wait of holder.answer?.waits ?? []) found.set(waitName(wait), wait);
    if (holder.answer !== undefined) return;
    silent++;
    silentProcesses.add(processId);
  };
  const askAll = (asked: typeof next): Promise<unknown> =>
    Promise.all(asked.map(([key, processId]) => ask(key, processId)));
  let next: [key: string, processId: string][] = [];
  for await (const { key, holder, waiters } of locks) {
    if (waiters === 0 || holder === undefined) continue; // nobody wants it, or nobody of ours has it
    if (silentProcesses.has(holder.processId)) silent++;
    else next.push([key, holder.processId]);
    if (next.length < ASKED_AT_ONCE) continue;
    await askAll(next);
    next = [];
  }
  await askAll(next);
  return { waits: [...found.values()], silent, present: (lock) => withPresentCall(lock, holders) };
}

function withPresentCall<Info extends LockInfo>(
  lock: Info,
  holders: ReadonlyMap<string, AskedHolder>,
): Info {
  const told = holders.get(lock.key);
  if (told === undefined || leaseIdOf(told.token) !== lock.leaseId) return lock;
  const call = told.answer?.call;
  const { since = lock.since, fencingToken } = call ?? lock;
  return { ...lock, holder: withCall(lock.holder, call), since, fencingToken };
}
