import type { LockInfo, LockWait } from '../lock-info.js';
import type { AskedHolders } from '../lock-overview.js';
import { processIdOf } from '../store/lease-token.js';
import { leaseIdOf } from '../store/shared-value.js';
import type { AskedHolder, HolderQuestions } from './holder-questions.js';
import { withCall } from './present-call.js';
import { waitName } from './wait-name.js';

/** How many questions are under way at once. */
const ASKED_AT_ONCE = 16;

/** A held lock. */
type Held = Pick<LockInfo, 'key' | 'holders' | 'waiters'>;

/** What the processes have said, and which did not. */
export interface CollectedWaits extends AskedHolders {
  /** Of how many locks it is unknown, at least in part, because a process that has them has not answered. */
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
  const ask = async (key: string): Promise<void> => {
    const asked = await questions.ask(key);
    const [first] = asked;
    if (first !== undefined) holders.set(key, first);
    for (const { token, answer } of asked) {
      for (const wait of answer?.waits ?? []) found.set(waitName(wait), wait);
      if (answer === undefined) silentProcesses.add(processIdOf(token) as string);
    }
    if (asked.some(({ answer }) => answer === undefined)) silent++;
  };
  let next: string[] = [];
  for await (const { key, holders: has, waiters } of locks) {
    if (waiters === 0 || has.length === 0) continue; // nobody wants it, or nobody of ours has it
    if (has.every(({ processId }) => silentProcesses.has(processId))) silent++;
    else next.push(key);
    if (next.length < ASKED_AT_ONCE) continue;
    await Promise.all(next.map(ask));
    next = [];
  }
  await Promise.all(next.map(ask));
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
