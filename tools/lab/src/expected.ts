import { type Finding, UNSAFE } from './run/findings.js';
import type { Trial } from './run/trial.js';

/** What has to be found, and what may be found in addition, because it depends on who is quicker. */
interface Expectation {
  readonly must: readonly Finding[];
  readonly may?: readonly Finding[];
}

const HELD: Expectation = { must: [] };
const LOST: Expectation = { must: ['stock wrong', 'two holders', 'nobody was told'] };
// Who does not get in, or fails, sells nothing.
const FOR_EVER: Expectation = { must: ['locked for ever'], may: ['goal missed'] };
const FAILED: Expectation = { must: ['call failed'], may: ['goal missed'] };

/**
 * What each accident does to the stages to which it can happen. A run that differs from this fails, whether it found
 * more or less, because then a stage, an accident or our lock is not what this lab says.
 */
const EXPECTED: Readonly<Record<string, Readonly<Record<number, Expectation>>>> = {
  sale: {
    ...from(1, 17, HELD),
    1: LOST,
    2: LOST,
    5: LOST,
    // By chance, a caller may meet the nil that the accident of that name provokes.
    10: { must: [], may: ['call failed'] },
  },
  look: { ...from(5, 17, HELD), 5: LOST },
  killed: { ...from(3, 17, HELD), 5: FOR_EVER, 6: FOR_EVER },
  between: { 5: HELD, 7: FOR_EVER, 12: FOR_EVER, 17: HELD },
  waiter: { ...from(3, 17, HELD), 5: FOR_EVER, 6: FOR_EVER, 11: FOR_EVER },
  clocks: { ...from(5, 17, HELD), 8: LOST, 9: LOST, 10: LOST },
  'p1-p2-p3': { ...from(7, 17, HELD), 8: LOST, 9: LOST },
  nil: { ...from(5, 17, HELD), 10: FAILED },
  'get-del': { ...from(7, 17, HELD), ...from(7, 11, LOST) },
  'long-work': { ...from(1, 17, HELD), 1: LOST, 2: LOST, ...from(7, 13, LOST) },
  renewal: { ...from(14, 16, LOST), 17: HELD },
  'passed-on': { 16: LOST, 17: HELD },
  busy: { 16: FOR_EVER, 17: HELD },
  pause: { ...from(1, 6, HELD), 1: LOST, 2: LOST, ...from(7, 16, LOST), 17: HELD },
  'in-transaction': {
    ...from(3, 16, FAILED),
    // All callers that waited look again at the same time.
    5: { must: ['call failed'], may: ['goal missed', 'two holders', 'nobody was told'] },
    17: HELD,
  },
  failover: {
    ...from(5, 16, LOST),
    // For a moment two callers have the lock, until the first one asks. The fence lets them write one after the other.
    17: { must: [], may: ['two holders', 'nobody was told'] },
  },
  hang: { 5: HELD, 6: HELD, ...from(7, 16, LOST), 17: HELD },
};

/** How a trial differs from the table, in words; undefined if it does not. */
export function deviationOf(trial: Trial): string | undefined {
  const expected = expectationOf(trial);
  if (expected === undefined) return 'the table of expected results does not know of it';
  const missing = expected.must.filter((finding) => !trial.findings.includes(finding));
  const added = addedTo(expected, trial);
  const parts = [
    missing.length > 0 && `expected, and not found: ${missing.join(', ')}`,
    added.length > 0 && `found, and not expected: ${added.join(', ')}`,
  ];
  return parts.filter((part) => part !== false).join('; ') || undefined;
}

/** Whether a trial has found that a lock is unsafe which should be safe. No repeat can take that back. */
export function isUnsafe(trial: Trial): boolean {
  return addedTo(expectationOf(trial) ?? HELD, trial).some((finding) => UNSAFE.includes(finding));
}

/** Whether the table says anything about the pair. A test compares this with what can happen. */
export function isExpected(accident: string, stage: number): boolean {
  return EXPECTED[accident]?.[stage] !== undefined;
}

function expectationOf({ accident, stage }: Trial): Expectation | undefined {
  return EXPECTED[accident]?.[stage];
}

function addedTo({ must, may = [] }: Expectation, { findings }: Trial): Finding[] {
  return findings.filter((finding) => !must.includes(finding) && !may.includes(finding));
}

function from(first: number, last: number, expectation: Expectation): Record<number, Expectation> {
  return Object.fromEntries(
    Array.from({ length: last - first + 1 }, (_, n) => [first + n, expectation]),
  );
}
