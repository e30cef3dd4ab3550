import type { Entry } from '../history/entry.js';
import { STEADY_KEYS } from '../keys.js';
import { answerViolations } from './answers.js';
import { settledAt } from './call.js';
import { exclusionViolations, sharingViolations } from './exclusion.js';
import { type ExcusedTime, excusedTime, type KeyTimes } from './excused-time.js';
import { factsOf } from './facts.js';
import { processViolations } from './processes.js';
import type { Section } from './section.js';
import { termViolations } from './terms.js';
import { tokenViolations } from './token-order.js';
import { type WaitLimits, waitViolations } from './waits.js';

export interface CheckLimits extends WaitLimits {
  /** The share of holds that faults may excuse, from 0 to 1. If there were more, a clean run would say little. */
  readonly excusedShare: number;
  /** The share of the time for which faults may excuse the waits for one key, from 0 to 1. */
  readonly excusedTimeShare: number;
}

export interface Violation {
  readonly rule: string;
  readonly text: string;
}

export interface Verdict {
  readonly violations: readonly Violation[];
  readonly attempts: number;
  /** How many keys were held. A call for three keys counts three times. */
  readonly holds: number;
  /**
   * Holds for which a fault is an excuse: those whose lease it may have forgotten, and those that overlapped with them.
   */
  readonly excused: number;
  /** How many holds were lost, by reason. */
  readonly lost: Readonly<Record<string, number>>;
  /** How many calls were refused, by code. */
  readonly refused: Readonly<Record<string, number>>;
  /** How many calls of each kind held their keys. */
  readonly kinds: Readonly<Record<string, number>>;
  readonly longestWaitMs: number;
  /** How long two holders of a key were excused for being there at the same time, by key. */
  readonly excusedOverlaps: KeyTimes;
  readonly excusedTime: ExcusedTime;
}

/** Reads a history and reports everything in it that no lock may do. Each rule has a file. */
export function check(history: readonly Entry[], limits: CheckLimits): Verdict {
  const facts = factsOf(history);
  const calls = [...facts.calls.values()];
  const excused = new Set<Section>();
  const overlaps: Record<string, number> = {};
  const violations = [
    ...of('exclusion', exclusionViolations(facts, { excused, overlaps })),
    ...of('sharing', sharingViolations(facts)),
    ...of('tokens', tokenViolations(facts, excused)),
    ...of('terms', termViolations(facts)),
    ...of('answers', answerViolations(facts)),
    ...of('processes', processViolations(facts)),
    ...of('waits', waitViolations(facts, limits)),
  ];
  const held = facts.sections.filter(({ call }) => call !== undefined);
  for (const section of held) if (facts.forgotten.concerns(section)) excused.add(section);
  const holds = held.length;
  violations.push(...of('excuses', tooMuchExcused(held, excused, limits)));
  const time = excusedTime(facts);
  for (const key of STEADY_KEYS) {
    const share = (time.byKey[key] ?? 0) / time.runMs;
    if (!(share > limits.excusedTimeShare)) continue; // a history of one moment has no share
    const text = `waits for ${key} were excused for ${(share * 100).toFixed(0)} % of the time, more than ${limits.excusedTimeShare * 100} %`;
    violations.push({ rule: 'excuses', text });
  }
  return {
    violations,
    attempts: calls.length,
    holds,
    excused: excused.size,
    lost: countBy(calls.flatMap(({ lost }) => lost?.reason ?? [])),
    refused: countBy(calls.flatMap(({ refused }) => refused?.code ?? [])),
    kinds: countBy(calls.flatMap(({ held, what }) => (held === undefined ? [] : what))),
    excusedOverlaps: overlaps,
    excusedTime: time,
    longestWaitMs: Math.round(
      Math.max(0, ...calls.map((call) => (settledAt(call) ?? call.askedAt) - call.askedAt)),
    ),
  };
}

/** Of a crowd that was to give up, a thousand calls may hold their own keys in one moment. They are not counted. */
function tooMuchExcused(
  held: readonly Section[],
  excused: ReadonlySet<Section>,
  { excusedShare }: CheckLimits,
): string[] {
  const isCounted = ({ call }: Section): boolean => call?.what !== 'crowd';
  const ofHolds = held.filter(isCounted).length;
  const ofThem = [...excused].filter(isCounted).length;
  if (ofThem <= ofHolds * excusedShare) return [];
  return [
    `${ofThem} of ${ofHolds} holds were excused by faults, more than ${excusedShare * 100} %`,
  ];
}

function of(rule: string, texts: readonly string[]): Violation[] {
  return texts.map((text) => ({ rule, text }));
}

function countBy(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}
