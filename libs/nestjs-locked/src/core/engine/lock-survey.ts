import { keyProblem } from '../keys/lock-key.js';
import { LockKeyError } from '../lock.errors.js';
import type { LockOverview, OverviewLock } from '../lock-overview.js';
import { introducedAt } from '../store/lease-token.js';
import type { LockInspector, LockRecord, LockSurvey } from '../store/lock-inspector.js';
import { tokensIn } from '../store/shared-value.js';
import type { LocalView } from './local-view.js';

/** How many keys are looked at, which keeps the memory and the time of a look within bounds. */
const MOST_KEYS = 20_000;

/** How many locks are asked for at a time. */
const MOST_AT_ONCE = 50;

interface Candidate {
  readonly key: string;
  readonly value: string | undefined;
  readonly count: number;
  readonly longestMs: number;
  /** When its holder asked for it. Locks of which that is unknown come last. */
  readonly since: number;
}

/**
 * Looks at all locks, once for all patterns: at the key and the queue of each, and then, with the script of `inspect`,
 * only at those that are shown.
 * @param most how many are shown of each pattern @throws LockStoreError
 */
export async function surveyLocks(
  inspector: LockInspector,
  local: LocalView,
  patterns: readonly string[],
  most: number,
): Promise<(Omit<LockOverview, 'ask'> | LockKeyError)[]> {
  const records = new Map<string, Promise<LockRecord | undefined>>();
  const inspect: Inspect = (key) => {
    const record = records.get(key) ?? inspector.inspect(key);
    records.set(key, record);
    return record;
  };
  const seen: (Omit<LockOverview, 'ask'> | LockKeyError)[] = [];
  for (const survey of await inspector.survey(patterns, MOST_KEYS)) {
    seen.push(
      survey instanceof LockKeyError ? survey : await overviewOf(survey, inspect, local, most),
    );
  }
  return seen;
}

type Inspect = (key: string) => Promise<LockRecord | undefined>;

async function overviewOf(
  { locks, isPartial }: LockSurvey,
  inspect: Inspect,
  local: LocalView,
  most: number,
): Promise<Omit<LockOverview, 'ask'>> {
  const found = [...locks].map(([key, lock]): Candidate => {
    const since = introducedAt(tokensIn(lock.value ?? '')[0] ?? '')?.getTime() ?? Infinity;
    return { key, value: lock.value, ...local.waitersOf(key, lock), since };
  });
  return {
    held: found.filter(({ value }) => value !== undefined).length,
    waiting: found.reduce((sum, { count }) => sum + count, 0),
    oldestWaitMs: found.reduce((longest, { longestMs }) => Math.max(longest, longestMs), 0),
    locks: await shownLocks(inspect, local, mostWanted(found, most)),
    isPartial,
  };
}

/** Without the keys of other kinds of clients that no call of ours can name. */
function mostWanted(found: Candidate[], most: number): Candidate[] {
  const shown: Candidate[] = [];
  for (const candidate of found.sort(mostWantedFirst)) {
    if (shown.length === most) break;
    if (keyProblem(candidate.key) === undefined) shown.push(candidate);
  }
  return shown;
}

function mostWantedFirst(a: Candidate, b: Candidate): number {
  if (a.count !== b.count) return b.count - a.count;
  if (a.longestMs !== b.longestMs) return b.longestMs - a.longestMs;
  if (a.since !== b.since) return a.since - b.since;
  return a.key < b.key ? -1 : 1;
}

/** Those of the candidates that are held still. */
async function shownLocks(
  inspect: Inspect,
  local: LocalView,
  candidates: readonly Candidate[],
): Promise<OverviewLock[]> {
  const shown: OverviewLock[] = [];
  for (let from = 0; from < candidates.length; from += MOST_AT_ONCE) {
    const some = candidates.slice(from, from + MOST_AT_ONCE);
    const records = await Promise.all(some.map(({ key }) => inspect(key)));
    records.forEach((record, i) => {
      if (record === undefined) return;
      const { longestMs: oldestWaitMs } = some[i] as Candidate;
      const leases = tokensIn(record.value).length;
      shown.push({ ...local.infoOf(record), oldestWaitMs, leases });
    });
  }
  return shown;
}
