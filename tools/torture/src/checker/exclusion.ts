import type { Call } from './call.js';
import type { Facts } from './facts.js';
import type { Section } from './section.js';

export interface Excused {
  /** Sections that, because of a fault, were allowed to be beside another holder or out of order. */
  readonly excused: Set<Section>;
  /** For how long, in milliseconds, by key. */
  readonly overlaps: Record<string, number>;
}

/** Two holds of a key are never valid at the same time, up to their own deadlines. */
export function exclusionViolations(
  { sections, forgotten }: Facts,
  { excused, overlaps }: Excused,
): string[] {
  const violations: string[] = [];
  const present = new Map<string, Section[]>();
  for (const section of sections) {
    // If a process was paused between its grant and this note, its hold was not valid any more.
    if (section.until <= section.from) continue;
    const before = (present.get(section.key) ?? []).filter(({ until }) => until > section.from);
    for (const other of before) {
      if (other.hold === section.hold) continue;
      const end = Math.min(other.until, section.until);
      if (forgotten.excuses([other, section], { from: section.from, until: end })) {
        excused.add(other).add(section);
        overlaps[section.key] = (overlaps[section.key] ?? 0) + Math.round(end - section.from);
      } else {
        violations.push(
          `two holders of ${section.key} for ${(end - section.from).toFixed(1)} ms: ${other.id} until ${other.until.toFixed(1)}, ${section.id} from ${section.from.toFixed(1)}`,
        );
      }
    }
    present.set(section.key, [...before, section]);
  }
  return violations;
}

/**
 * Calls inside each other share a hold. Calls that were made side by side (`Promise.all`) take turns, and calls that
 * know nothing of each other never share a hold.
 */
export function sharingViolations({ sections, calls }: Facts): string[] {
  const violations: string[] = [];
  const byHold = new Map<string, Section[]>();
  for (const section of sections) {
    const others = byHold.get(section.hold) ?? [];
    byHold.set(section.hold, [...others, section]);
    if (section.call === undefined) continue;
    for (const { call: other, id, from } of others) {
      if (other === undefined) continue;
      if (!areRelated(section.call, other, calls)) {
        violations.push(
          `${section.id} and ${id} share a hold of ${section.key} although neither was made inside the other`,
        );
      } else if (
        section.call.parent === other.parent &&
        (other.endedAt ?? other.killedAt ?? Infinity) > section.from
      ) {
        violations.push(
          `two branches of ${other.parent} have ${section.key} at the same time: ${id} from ${from.toFixed(1)}, ${section.id} from ${section.from.toFixed(1)}`,
        );
      }
    }
  }
  return violations;
}

function areRelated(a: Call, b: Call, calls: ReadonlyMap<string, Call>): boolean {
  const root = (call: Call): Call => {
    const parent = call.parent === undefined ? undefined : calls.get(call.parent);
    return parent === undefined ? call : root(parent);
  };
  return root(a) === root(b);
}
