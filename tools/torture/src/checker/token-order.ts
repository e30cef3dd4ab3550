import type { Facts } from './facts.js';
import type { OwnSection } from './section.js';

/**
 * Fencing tokens rise in the order of the holds, whatever happens; a database refuses those that do not. Only the
 * tokens of a lease that Redis has forgotten, and whose process does not know it yet, may come after a newer one, and
 * these the database must refuse. No two holds ever have the same token.
 *
 * Permits have none. Those that read are ordered after each call that had the key alone, and not among each other.
 */
export function* tokenViolations({ own, forgotten, excused }: Facts): Iterable<string> {
  const behind = new Map<OwnSection, OwnSection[]>();
  const highest = new Map<string, OwnSection>();
  const highestAlone = new Map<string, OwnSection>();
  for (const section of own) {
    const { key, token, reads } = section;
    if (token === undefined || section.until <= section.from) continue;
    const before = (reads ? highestAlone : highest).get(key);
    if (before?.token === undefined || token > before.token) {
      if (!reads) highestAlone.set(key, section);
      if (token > (highest.get(key)?.token ?? -Infinity)) highest.set(key, section);
    } else if (before.hold !== section.hold) {
      const isOlder = token < before.token;
      if (isOlder && isExcused(section, before, forgotten)) excused.add(section);
      else behind.set(before, [...(behind.get(before) ?? []), section]);
    }
  }
  for (const [before, [first, ...more]] of behind as Map<OwnSection, [OwnSection]>) {
    const others = more.length > 0 ? `, and ${more.length} more behind it` : '';
    yield `token of ${before.key} did not rise: ${before.id} had ${before.token}, ${first.id} after it ${first.token}${others}`;
  }
}

function isExcused(
  section: OwnSection,
  before: OwnSection,
  forgotten: Facts['forgotten'],
): boolean {
  const excuses = (holders: OwnSection[], at: number): boolean =>
    forgotten.excuses(holders, { from: at, until: at });
  // As one of several keys, it may have been granted unseen before the other one, which was forgotten.
  const wasUnseen = section.lease.from < before.from;
  return excuses([section], section.from) || (wasUnseen && excuses([before, section], before.from));
}
