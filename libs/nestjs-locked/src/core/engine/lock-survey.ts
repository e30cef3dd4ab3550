import { keyProblem } from '../keys/lock-key.js';
import type { LockOverview, OverviewLock } from '../lock-overview.js';
import { introducedAt } from '../store/lease-token.js';
import type { LockInspector, SurveyedLock } from '../store/lock-inspector.js';
import type { LocalView } from './local-view.js';

/** How many keys are looked at, which keeps the memory and the time of a look within bounds. */
const MOST_KEYS = 100_000;

/** How many locks are asked for at a time. */
const MOST_AT_ONCE = 50;

interface Candidate {
  readonly key: string;
  readonly value: string | undefined;
  readonly count: number;
  readonly longestMs: number;
}

/**
 * Looks at all locks: at the key and the queue of each, and then, with the script of `inspect`, only at those that are
 * shown.
 * @param most how many are shown @throws LockStoreError
 */
export async function surveyLocks(
  inspector: LockInspector,
  local: LocalView,
  pattern: string,
  most: number,
): Promise<LockOverview> {
  const { locks, isPartial } = await inspector.survey(pattern, MOST_KEYS);
  const found = [...locks].flatMap(([key, lock]) => candidateOf(key, lock, local));
  const waited = found.map(({ longestMs }) => longestMs);
  return {
    held: found.filter(({ value }) => value !== undefined).length,
    waiting: found.reduce((sum, { count }) => sum + count, 0),
    oldestWaitMs: waited.reduce((longest, ms) => Math.max(longest, ms), 0),
    locks: await shownLocks(inspector, local, found.sort(mostWantedFirst).slice(0, most)),
    isPartial,
  };
}

/** @returns nothing for a key of another kind of client that no call of ours can name */
function candidateOf(key: string, lock: SurveyedLock, local: LocalView): Candidate[] {
  if (keyProblem(key) !== undefined) return [];
  return [{ key, value: lock.value, ...local.waitersOf(key, lock) }];
}

function mostWantedFirst(a: Candidate, b: Candidate): number {
  const byTime = sinceOf(a) - sinceOf(b);
  return b.count - a.count || b.longestMs - a.longestMs || byTime || (a.key < b.key ? -1 : 1);
}

/** Locks of which that is unknown come last. */
function sinceOf({ value = '' }: Candidate): number {
  return introducedAt(value)?.getTime() ?? Number.MAX_SAFE_INTEGER;
}

/** Those of the candidates that are held still. */
async function shownLocks(
  inspector: LockInspector,
  local: LocalView,
  candidates: readonly Candidate[],
): Promise<OverviewLock[]> {
  const shown: OverviewLock[] = [];
  for (let from = 0; from < candidates.length; from += MOST_AT_ONCE) {
    const some = candidates.slice(from, from + MOST_AT_ONCE);
    const records = await Promise.all(some.map(({ key }) => inspector.inspect(key)));
    records.forEach((record, i) => {
      if (record === undefined) return;
      shown.push({ ...local.infoOf(record), oldestWaitMs: (some[i] as Candidate).longestMs });
    });
  }
  return shown;
}
