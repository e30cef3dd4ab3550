import { countBy } from '../collections.js';
import type { Entry } from '../history/entry.js';
import { answerViolations } from './answers.js';
import { settledAt } from './call.js';
import { exclusionViolations, sharingViolations } from './exclusion.js';
import { type ExcusedTime, excuseViolations, type KeyTimes } from './excuses.js';
import { type CheckLimits, type Facts, factsOf } from './facts.js';
import { handOffViolations } from './hand-offs.js';
import { knownViolations } from './known-history.js';
import { processViolations } from './processes.js';
import { type Rule, type Violation, violationsOf } from './rules.js';
import { termViolations } from './terms.js';
import { tokenViolations } from './token-order.js';
import { waitViolations } from './waits.js';

const RULES: Readonly<Record<string, Rule<Facts>>> = {
  exclusion: exclusionViolations,
  sharing: sharingViolations,
  tokens: tokenViolations,
  terms: termViolations,
  answers: answerViolations,
  'hand-offs': handOffViolations,
  processes: processViolations,
  waits: waitViolations,
  known: knownViolations,
  excuses: excuseViolations,
};

export interface Verdict {
  readonly violations: readonly Violation[];
  readonly attempts: number;
  /** How many keys were held. A call for three keys counts three times. */
  readonly holds: number;
  /** How many of the holds a fault excuses. */
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

/** Reads a history and reports everything in it that no lock may do. */
export function check(history: readonly Entry[], limits: CheckLimits): Verdict {
  const facts = factsOf(history, limits);
  const calls = [...facts.calls.values()];
  const violations = violationsOf(RULES, facts);
  const waitsMs = calls.map((call) => (settledAt(call) ?? call.askedAt) - call.askedAt);
  return {
    violations,
    attempts: calls.length,
    holds: facts.own.length,
    excused: facts.excused.size,
    lost: countBy(calls, ({ lost }) => lost?.reason),
    refused: countBy(calls, ({ refused }) => refused?.code),
    kinds: countBy(calls, ({ held, what }) => held && what),
    longestWaitMs: Math.round(Math.max(0, ...waitsMs)),
    excusedOverlaps: facts.excusedOverlaps,
    excusedTime: facts.excusedTime,
  };
}
