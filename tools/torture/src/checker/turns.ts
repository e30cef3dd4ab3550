import { type Call, isSeveral, leaseLengthMs, settledAt, waitedUntil } from './call.js';
import type { Facts } from './facts.js';
import type { Interval } from './intervals.js';
import { freeFrom } from './occupation.js';

/** A time at which another call had a key, or may have had it. */
interface Turn extends Interval {
  readonly askedAt: number;
  /** It never had all its keys, so nobody knows whether it had this one. */
  readonly isUnseen: boolean;
}

/** The queue for one key, as one call stands in it. */
interface Place {
  readonly turns: readonly Turn[];
  /** The call cannot have come here before this. */
  since: number;
  /** For how long since then nothing has kept the call from coming here. */
  quietMs: number;
  /** The call has certainly been here from this time on: who asks later comes after it. */
  queuedAt: number;
}

/**
 * For how long a call has waited for keys that go from hand to hand, although it was its turn. Time in which somebody
 * has the key who came before it does not count. Several keys are waited for in their order: a call comes into the
 * queue for a key when it has the one before, so those who asked earlier for that key alone are ahead of it.
 */
export class Turns {
  /** How long it has waited while nobody who came before it had the key. */
  passedOverMs = 0;
  readonly #call: Call;
  readonly #gapMs: number;
  readonly #queues: readonly (readonly Turn[])[];
  #places: readonly Place[] = [];

  /** @param gapMs a call takes its place in a queue within this time */
  constructor(call: Call, facts: Facts, gapMs: number) {
    this.#call = call;
    this.#gapMs = gapMs;
    this.#queues = [...new Set(call.keys)].sort().map((key) => turnsOf(key, call, facts));
    this.start(call.askedAt);
  }

  /** @param ms so much time has passed until `at`, and nothing was disturbed */
  pass(at: number, ms: number): void {
    const isBehind = this.#places.some(
      ({ turns, since, queuedAt }) =>
        since < at &&
        turns.some(({ askedAt, from, until }) => askedAt <= queuedAt && from <= at && at <= until),
    );
    if (!isBehind) this.passedOverMs += ms;
    for (const [n, place] of this.#places.entries()) {
      if (at <= place.since || place.queuedAt < Infinity) continue;
      place.quietMs += ms;
      if (place.quietMs <= this.#gapMs) continue;
      place.queuedAt = at;
      const next = this.#places[n + 1];
      if (next !== undefined) next.since = this.#lastTurnOf(place);
    }
  }

  /** It comes to the first key. If it had some and has lost them, it comes again, behind those who stand there now. */
  start(at: number): void {
    this.#places = this.#queues.map((turns, n) => ({
      turns,
      since: n === 0 ? at : Infinity,
      quietMs: 0,
      queuedAt: Infinity,
    }));
  }

  /** When the call can have got the key: it is the last one that had it. */
  #lastTurnOf({ turns, queuedAt }: Place): number {
    const before = turns.filter(({ isUnseen, askedAt }) => !isUnseen || askedAt <= queuedAt);
    return Math.max(this.#call.askedAt, ...before.map(({ until }) => until));
  }
}

/** The turns of all others that had the key, or may have had it, until the call was answered. */
function turnsOf(key: string, call: Call, { sections, calls }: Facts): Turn[] {
  const end = waitedUntil(call);
  const own = ancestryOf(call, calls);
  const firstAsked = new Map<string, number>();
  const turns: Turn[] = [];
  let lastUntil = -Infinity;
  for (const section of sections) {
    if (section.key !== key || section.from >= end) continue;
    const { call: other, from, until, hold } = section;
    // Who adopts a lock goes on under it.
    const asked = other?.adopts === undefined ? other?.askedAt : undefined;
    const askedAt = firstAsked.get(hold) ?? asked ?? -Infinity;
    firstAsked.set(hold, askedAt);
    // Of several keys, it may have had this one since nobody else had it.
    const since =
      other !== undefined && isSeveral(other) ? Math.max(other.askedAt, lastUntil) : from;
    lastUntil = Math.max(lastUntil, until);
    if (other !== undefined && own.has(other)) continue;
    const times = { from: Math.min(since, from), until: freeFrom(section) };
    turns.push({ askedAt, ...times, isUnseen: false });
  }
  for (const other of calls.values()) {
    if (other.held !== undefined || !isSeveral(other) || !other.keys.includes(key)) continue;
    if (other.askedAt >= end || own.has(other)) continue;
    const { askedAt, killedAt = Infinity } = other;
    const until = settledAt(other) ?? killedAt + leaseLengthMs(other);
    turns.push({ askedAt, from: askedAt, until, isUnseen: true });
  }
  return turns;
}

/** The call and those inside which it was made, whose keys it has at once. */
function ancestryOf(call: Call, calls: Facts['calls']): ReadonlySet<Call> {
  const own = new Set([call]);
  for (let { parent } = call; parent !== undefined;) {
    const outer = calls.get(parent);
    if (outer === undefined) break;
    own.add(outer);
    parent = outer.parent;
  }
  return own;
}
