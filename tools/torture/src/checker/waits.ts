import { type Call, isSeveral, leaseLengthMs, settledAt } from './call.js';
import type { Facts } from './facts.js';
import type { Interval } from './intervals.js';
import { isWaitingAt, occupations } from './occupation.js';
import { Turns } from './turns.js';

export interface WaitLimits {
  /** How long a key may be free while somebody waits for it and nothing explains that. */
  readonly gapMs: number;
  /**
   * How long a call may wait in all, not counting the time that faults explain, or in which somebody has the key who
   * came before it.
   */
  readonly fairMs: number;
}

const STEP_MS = 50;

/** No call waits for a key that is free, and no call waits without end for a key that goes from hand to hand. */
export function waitViolations(facts: Facts, { gapMs, fairMs }: WaitLimits): string[] {
  const waiting = [...facts.calls.values()].filter((call) => waitedMs(call) > gapMs);
  if (waiting.length === 0) return [];
  const occupied = occupations(facts);
  const gaps = new Map<Call, number>();
  const turns = new Map<Call, Turns>();
  for (const call of waiting) {
    if (waitedMs(call) > fairMs) turns.set(call, new Turns(call, facts, gapMs));
  }
  const reported = new Set<Call>();
  const violations: string[] = [];
  const start = Math.min(...waiting.map(({ askedAt }) => askedAt));
  const end = Math.max(...waiting.map((call) => call.askedAt + waitedMs(call)));
  for (let at = start; at <= end; at += STEP_MS) {
    const now = new Present(facts, occupied, at);
    for (const call of waiting.filter((one) => isWaitingAt(one, at))) {
      if (now.hasLostKeys(call)) turns.get(call)?.start(at);
      if (now.isDisturbed(call)) continue;
      turns.get(call)?.pass(at, STEP_MS);
      const gap = now.isExplained(call) ? 0 : (gaps.get(call) ?? 0) + STEP_MS;
      gaps.set(call, gap);
      if (gap <= gapMs || reported.has(call)) continue;
      reported.add(call);
      violations.push(
        `${call.keys.join('+')} was free for more than ${gapMs} ms, up to ${at.toFixed(0)}, while ${call.id} (${call.what}) waited for it`,
      );
    }
  }
  for (const [call, { passedOverMs }] of turns) {
    if (passedOverMs > fairMs) {
      violations.push(
        `${call.id} (${call.what}) starved: it waited for ${call.keys.join('+')} for ${passedOverMs} ms that neither a fault nor those before it explain`,
      );
    }
  }
  return violations;
}

function waitedMs(call: Call): number {
  return (settledAt(call) ?? call.killedAt ?? call.askedAt) - call.askedAt;
}

/** One moment of the history. */
class Present {
  readonly #facts: Facts;
  readonly #at: number;
  readonly #taken = new Set<string>();
  /**
   * Calls about which nobody knows: a call that waits for several keys, one of which is disturbed, may have the others
   * already.
   */
  readonly #doubtful = new Set<string>();

  constructor(facts: Facts, occupied: ReadonlyMap<string, readonly Interval[]>, at: number) {
    this.#facts = facts;
    this.#at = at;
    for (const [key, intervals] of occupied) {
      if (intervals.some(({ from, until }) => from <= at && at <= until)) this.#taken.add(key);
    }
    const several = [...facts.calls.values()].filter(
      (call) => isSeveral(call) && isWaitingAt(call, at),
    );
    this.#addUnseen(several);
    this.#addDoubtful(several);
  }

  /** A call for several keys may have had some of them when its process stood still, and their leases ended. */
  hasLostKeys(call: Call): boolean {
    const stoodStillMs = this.#facts.disturbances.stoodStillForMs(call.process, this.#at);
    return isSeveral(call) && stoodStillMs >= leaseLengthMs(call) / 2; // it may have begun long before its renewal
  }

  isDisturbed(call: Call): boolean {
    const { disturbances } = this.#facts;
    const now = { from: this.#at - STEP_MS, until: this.#at };
    if (disturbances.stalledMs(call.process, now) > 0) return true;
    return call.keys.some((key) => this.#doubtful.has(key) || this.#isKeyDisturbed(key));
  }

  #isKeyDisturbed(key: string): boolean {
    return this.#facts.disturbances.isKeyDisturbed(key, this.#at);
  }

  /** Whether one of its keys is not available now. */
  isExplained(call: Call): boolean {
    return call.keys.some((key) => this.#taken.has(key));
  }

  /** A call that waits for one of several keys may have the others already, and so on. */
  #addUnseen(several: readonly Call[]): void {
    for (let found = true; found;) {
      found = false;
      for (const call of several) {
        if (!this.isExplained(call)) continue;
        for (const key of call.keys) {
          if (this.#taken.has(key)) continue;
          this.#taken.add(key);
          found = true;
        }
      }
    }
  }

  /** The same for keys that are disturbed: who waits for one of them may have others, for which others wait in turn. */
  #addDoubtful(several: readonly Call[]): void {
    for (let found = true; found;) {
      found = false;
      for (const { keys } of several) {
        if (!keys.some((key) => this.#doubtful.has(key) || this.#isKeyDisturbed(key))) continue;
        for (const key of keys) {
          if (this.#doubtful.has(key)) continue;
          this.#doubtful.add(key);
          found = true;
        }
      }
    }
  }
}
