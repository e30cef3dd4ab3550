import type { Call, Permit } from './call.js';
import type { Facts } from './facts.js';
import { areJoint, type OwnSection, type Section } from './section.js';

/**
 * Two holds of a key are never valid at the same time, up to their own deadlines, unless both only read, or both are
 * permits, of which there are enough for all that are valid.
 */
export function* exclusionViolations(facts: Facts): Iterable<string> {
  const { sections, forgotten, excused, excusedOverlaps } = facts;
  const present = new Map<string, Section[]>();
  for (const section of sections) {
    const { key, from } = section;
    // If a process was paused between its grant and this note, its hold was not valid any more.
    if (section.until <= from) continue;
    const before = (present.get(key) ?? []).filter(({ until }) => until > from);
    for (const other of before) {
      if (other.hold === section.hold || areJoint(other, section)) continue;
      const end = Math.min(other.until, section.until);
      if (forgotten.excuses([other, section], { from, until: end })) {
        excused.add(other).add(section);
        excusedOverlaps[key] = (excusedOverlaps[key] ?? 0) + Math.round(end - from);
      } else {
        yield `two holders of ${key} for ${(end - from).toFixed(1)} ms: ${other.id} until ${other.until.toFixed(1)}, ${section.id} from ${from.toFixed(1)}`;
      }
    }
    if (section.permit !== undefined) yield* tooManyPermits(section, section.permit, before, facts);
    present.set(key, [...before, section]);
  }
}

/** @param before those that are valid when this one is */
function* tooManyPermits(
  section: Section,
  { weight, most, slot }: Permit,
  before: readonly Section[],
  { forgotten, excused }: Facts,
): Iterable<string> {
  const { key, id, from, hold } = section;
  if (before.some((other) => other.hold === hold)) return; // it has joined a call around it
  const others = new Map<string, Section & { readonly permit: Permit }>();
  for (const other of before) {
    if (other.permit === undefined) continue;
    const end = Math.min(other.until, section.until);
    if (forgotten.excuses([other, section], { from, until: end })) excused.add(other).add(section);
    else others.set(other.hold, { ...other, permit: other.permit });
  }
  const permits = [...others.values()].map((other) => other.permit);
  const all = permits.reduce((sum, permit) => sum + permit.weight, weight);
  const limit = Math.max(most, ...permits.map((permit) => permit.most));
  if (all > limit) {
    const ids = [...others.values()].map((other) => other.id).join(', ');
    yield `${all} of ${limit} permits of ${key} at ${from.toFixed(1)}: ${id} beside ${ids}`;
  }
  const same = [...others.values()].find((other) => other.permit.slot === slot);
  if (same !== undefined) yield `two holders of slot ${slot} of ${key}: ${same.id} and ${id}`;
}

/**
 * Calls inside each other share a hold. Calls that were made side by side (`Promise.all`) take turns unless they read,
 * and calls that know nothing of each other never share a hold.
 */
export function* sharingViolations({ own, calls }: Facts): Iterable<string> {
  const byHold = new Map<string, OwnSection[]>();
  for (const section of own) {
    const { call, id, key, from } = section;
    const others = byHold.get(section.hold) ?? [];
    byHold.set(section.hold, [...others, section]);
    for (const { call: other, id: its, from: before } of others) {
      const { ended, killedAt = Infinity } = other;
      if (rootOf(call, calls) !== rootOf(other, calls)) {
        yield `${id} and ${its} share a hold of ${key} although neither was made inside the other`;
      } else if (!section.reads && call.parent === other.parent && (ended?.at ?? killedAt) > from) {
        yield `two branches of ${other.parent} have ${key} at the same time: ${its} from ${before.toFixed(1)}, ${id} from ${from.toFixed(1)}`;
      }
    }
  }
}

/** The outermost call around a call. */
function rootOf(call: Call, calls: Facts['calls']): Call {
  const parent = call.parent === undefined ? undefined : calls.get(call.parent);
  return parent === undefined ? call : rootOf(parent, calls);
}
