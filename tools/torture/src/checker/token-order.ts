import type { Facts } from './facts.js';
import type { Interval } from './intervals.js';
import type { Section } from './section.js';

/**
 * Fencing tokens rise in the order of the holds, whatever happens; a database refuses those that do not. Only the
 * tokens of a lease that Redis has forgotten, and whose process does not know it yet, may come after a newer one, and
 * these the database must refuse. No two holds ever have the same token.
 */
export function tokenViolations({ sections, forgotten }: Facts, excused: Set<Section>): string[] {
  const behind = new Map<Section, Section[]>();
  const highest = new Map<string, Section>();
  for (const section of sections) {
    const { key, token } = section;
    if (token === undefined || section.until <= section.from) continue;
    const before = highest.get(key);
    if (before?.token === undefined || token > before.token) {
      highest.set(key, section);
    } else if (before.hold !== section.hold) {
      const isOlder = token < before.token;
      if (isOlder && isExcused(section, before, forgotten)) excused.add(section);
      else behind.set(before, [...(behind.get(before) ?? []), section]);
    }
  }
  return [...behind].map(([before, after]) => {
    const [first] = after as [Section];
    const others = after.length > 1 ? `, and ${after.length - 1} more behind it` : '';
    return `token of ${before.key} did not rise: ${before.id} had ${before.token}, ${first.id} after it ${first.token}${others}`;
  });
}

function isExcused(section: Section, before: Section, forgotten: Facts['forgotten']): boolean {
  const instant = (at: number): Interval => ({ from: at, until: at });
  if (forgotten.excuses([section], instant(section.from))) return true;
  // As one of several keys, it may have been granted unseen before the other one, which was forgotten.
  const wasUnseen = section.lease.from < before.from;
  return wasUnseen && forgotten.excuses([before, section], instant(before.from));
}
