import { type Call, isSeveral, leaseLengthMs, waitedUntil } from './call.js';
import type { Facts } from './facts.js';
import { overlaps } from './intervals.js';
import { occupations } from './occupation.js';
import { Turns } from './turns.js';

const STEP_MS = 50;

/** No call waits for a key that is free, and no call waits without end for a key that goes from hand to hand. */
export function* waitViolations(facts: Facts): Iterable<string> {
  const { gapMs, fairMs } = facts.limits;
  const waiting = [...facts.calls.values()].filter((call) => waitedMs(call) > gapMs);
  const occupied = occupations(facts);
  const gaps = new Map<Call, number>();
  const turns = new Map(
    waiting
      .filter((call) => waitedMs(call) > fairMs)
      .map((call) => [call, new Turns(call, facts, gapMs)]),
  );
  const start = Math.min(...waiting.map(({ askedAt }) => askedAt));
  const end = Math.max(...waiting.map((call) => call.askedAt + waitedMs(call)));
  for (let at = start; at <= end; at += STEP_MS) {
    const now = new Present(facts, occupied, at);
    for (const call of waiting.filter((one) => isWaitingAt(one, at))) {
      if (now.hasLostKeys(call)) turns.get(call)?.start(at);
      if (now.isDisturbed(call)) continue;
      turns.get(call)?.pass(at, STEP_MS);
      const before = gaps.get(call) ?? 0;
      if (before > gapMs) continue; // that has been reported
      const gap = now.isExplained(call) ? 0 : before + STEP_MS;
      gaps.set(call, gap);
      if (gap > gapMs) {
        yield `${call.keys.join('+')} was free for more than ${gapMs} ms, up to ${at.toFixed(0)}, while ${call.id} (${call.what}) waited for it`;
      }
    }
  }
  for (const [{ id, what, keys }, { passedOverMs }] of turns) {
    if (passedOverMs > fairMs) {
      yield `${id} (${what}) starved: it waited for ${keys.join('+')} for ${passedOverMs} ms that neither a fault nor those before it explain`;
    }
  }
}

/** Nobody knows how long a call waited that was never answered. */
function waitedMs(call: Call): number {
  const until = waitedUntil(call);
  return until === Infinity ? 0 : until - call.askedAt;
}

function isWaitingAt(call: Call, at: number): boolean {
  return call.askedAt <= at && at < waitedUntil(call);
}

/** One moment of the history. */
class Present {
  readonly #facts: Facts;
  readonly #at: number;
  /** A call that waits for one of several keys may have the others already, and so on. */
  readonly #taken: ReadonlySet<string>;
  /** The same for keys that are disturbed, of which nobody knows who has them. */
  readonly #doubtful: ReadonlySet<string>;

  constructor(facts: Facts, occupied: ReturnType<typeof occupations>, at: number) {
    this.#facts = facts;
    this.#at = at;
    const now = { from: at, until: at };
    const several = [...facts.calls.values()].filter(
      (call) => isSeveral(call) && isWaitingAt(call, at),
    );
    const isOccupied = ([, times]: readonly [string, readonly (typeof now)[]]): boolean =>
      times.some((time) => overlaps(time, now));
    this.#taken = withUnseen(
      several,
      [...occupied].filter(isOccupied).map(([key]) => key),
    );
    const disturbed = several.flatMap(({ keys }) => keys).filter((key) => this.#isDisturbed(key));
    this.#doubtful = withUnseen(several, disturbed);
  }

  /** A call for several keys may have had some of them when its process stood still, and their leases ended. */
  hasLostKeys(call: Call): boolean {
    const stoodStillMs = this.#facts.disturbances.stoodStillForMs(call.process, this.#at);
    return isSeveral(call) && stoodStillMs >= leaseLengthMs(call) / 2; // it may have begun long before its renewal
  }

  isDisturbed({ process, keys }: Call): boolean {
    const now = { from: this.#at - STEP_MS, until: this.#at };
    if (this.#facts.disturbances.stalledMs(process, now) > 0) return true;
    return keys.some((key) => this.#doubtful.has(key) || this.#isDisturbed(key));
  }

  /** Whether one of its keys is not available now. */
  isExplained({ keys }: Call): boolean {
    return keys.some((key) => this.#taken.has(key));
  }

  #isDisturbed(key: string): boolean {
    return this.#facts.disturbances.isKeyDisturbed(key, this.#at);
  }
}

/** Who waits for one of these keys may have others, unseen, for which others wait in turn. */
function withUnseen(several: readonly Call[], keys: Iterable<string>): ReadonlySet<string> {
  const all = new Set(keys);
  for (let size = -1; size < all.size;) {
    size = all.size;
    for (const call of several) {
      if (call.keys.some((key) => all.has(key))) for (const key of call.keys) all.add(key);
    }
  }
  return all;
}
