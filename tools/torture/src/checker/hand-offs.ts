import { groupBy } from '../collections.js';
import type { Facts } from './facts.js';

/** A lock that was detached is adopted once, unless Redis has forgotten the first who did. */
export function* handOffViolations({ calls, forgotten }: Facts): Iterable<string> {
  const adopters = [...calls.values()].filter(({ adopts, held }) => adopts && held?.remainingMs);
  for (const [from, all] of groupBy(adopters, ({ adopts }) => adopts)) {
    const [first, second] = [...all].sort((a, b) => a.askedAt - b.askedAt);
    if (first === undefined || second?.held === undefined) continue;
    const between = { from: first.askedAt, until: second.held.at };
    if (first.keys.some((key) => forgotten.mayConcern(key, between))) continue;
    yield `${first.id} and ${second.id} have both adopted the lock of ${from}`;
  }
}
