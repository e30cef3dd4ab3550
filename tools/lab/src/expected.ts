import { type Finding, UNSAFE } from './run/findings.js';
import type { Trial } from './run/trial.js';
import { STAGES } from './stages/index.js';
import { OUR_QUORUM, OURS } from './stages/stage.js';

/** What has to be found, and what may be found in addition, because it depends on who is quicker. */
interface Expectation {
  readonly must: readonly Finding[];
  readonly may?: readonly Finding[];
}

const HELD: Expectation = { must: [] };
// It depends on who is quicker: the COMMIT, or the next one's read.
const WRONG_BY_CHANCE: Expectation = { must: [], may: ['stock wrong'] };
// By chance, a waiter may meet the nil that the accident of that name provokes.
const FAILED_BY_CHANCE: Expectation = { must: [], may: ['call failed', 'goal missed'] };
const LOST: Expectation = { must: ['stock wrong', 'two holders', 'nobody was told'] };
const LATE: Expectation = { must: ['stock wrong', 'two holders', 'told late'] };
// Never two holders: the lock is released before the COMMIT.
const WRONG: Expectation = { must: ['stock wrong'] };
// Who does not get in, or fails, sells nothing.
const FOR_EVER: Expectation = { must: ['locked for ever'], may: ['goal missed'] };
const FAILED: Expectation = { must: ['call failed'], may: ['goal missed'] };

/** Of several servers: where theirs holds as well, and where it does not. */
const QUORUMS_HOLD = { 18: HELD, [OUR_QUORUM]: HELD };
const ONLY_OURS_HOLDS = { 18: LOST, [OUR_QUORUM]: HELD };

/** Where somebody waits while the holder releases. */
const BY_CHANCE = { 10: FAILED_BY_CHANCE, '13b': WRONG_BY_CHANCE };

/**
 * What each accident does to the stages to which it can happen. A run that differs from this fails, whether it found
 * more or less, because then a stage, an accident or our lock is not what this lab says.
 *
 * Stage 16 fails wherever it finds the lock in another process, so it never comes to most of the damage.
 */
const EXPECTED: Readonly<Record<string, Readonly<Record<string, Expectation>>>> = {
  sale: {
    ...from('1', OURS, HELD),
    ...from('1', '2b', LOST),
    // A waiter gets in only while somebody else is inside, so the last ones wait for ever.
    5: { ...LOST, may: ['locked for ever', 'goal missed'] },
    10: { must: [], may: ['call failed'] },
    // The first one that gets in by waiting cannot release.
    11: FOR_EVER,
    '13b': WRONG_BY_CHANCE,
    16: FAILED,
    ...QUORUMS_HOLD,
    // It has no queue: who asks again at the right moment gets in, and somebody may wait for too long.
    18: { must: [], may: ['goal missed'] },
  },
  look: { ...from('5', OURS, HELD), ...BY_CHANCE, 5: LOST, 16: FAILED },
  killed: {
    ...from('3', OURS, HELD),
    // The key of the dead holder lets the waiter in, and perhaps before its death.
    5: { must: [], may: ['two holders'] },
    6: FOR_EVER,
    16: FAILED,
    ...QUORUMS_HOLD,
  },
  between: { 5: HELD, 7: FOR_EVER, '10b': HELD, 12: HELD, [OURS]: HELD },
  waiter: {
    ...from('3', OURS, HELD),
    ...BY_CHANCE,
    // B enters beside A. It is killed before it saves, so the stock comes out right.
    5: { must: ['two holders', 'nobody was told'] },
    6: FOR_EVER,
    11: FOR_EVER,
    16: FAILED,
  },
  clocks: {
    ...from('5', OURS, HELD),
    ...BY_CHANCE,
    5: LOST,
    ...from('8', '10b', LOST),
    16: FAILED,
  },
  // The waiter of stage 11 that gets in cannot release, and the other one waits for it.
  'p1-p2-p3': {
    ...from('7', OURS, HELD),
    ...BY_CHANCE,
    8: LOST,
    9: LOST,
    11: FOR_EVER,
    16: FAILED,
  },
  // In stage 5, B has seen the key and waits for it to exist.
  nil: { ...from('5', OURS, HELD), 5: FOR_EVER, 10: FAILED },
  'get-del': { ...from('7', OURS, HELD), ...from('7', '11', LOST), '13b': WRONG, 16: FAILED },
  'long-work': {
    ...from('1', OURS, HELD),
    ...from('1', '2b', LOST),
    5: LOST,
    ...from('7', '13b', LOST),
    16: FAILED,
    ...ONLY_OURS_HOLDS,
  },
  // The second renewal of stage 16 reckons with more time than it has set. If the third finds that the lock is lost,
  // the release fails.
  'longer-work': { ...from('14', OURS, HELD), 16: { ...LOST, may: ['call failed'] } },
  renewal: { 14: LATE, 15: LATE, 16: FAILED, '16b': LOST, [OURS]: HELD },
  'passed-on': { '16b': LOST, [OURS]: HELD },
  busy: { '16b': FOR_EVER, [OURS]: HELD },
  'slow-commit': {
    ...from('1', OURS, HELD),
    1: LOST,
    2: WRONG,
    5: LOST,
    10: FAILED_BY_CHANCE,
    '13b': WRONG,
  },
  pause: {
    ...from('1', '6', HELD),
    1: LOST,
    2: WRONG,
    '2b': LOST,
    5: LOST,
    ...from('7', '13', LOST),
    '13b': WRONG,
    14: LATE,
    15: LATE,
    16: FAILED,
    '16b': LOST,
    [OURS]: HELD,
    ...ONLY_OURS_HOLDS,
  },
  'in-transaction': {
    ...from('3', '16b', FAILED),
    // The first waiter enters while A is inside. When it leaves, there is no key, and the others wait for one.
    5: { ...LOST, may: ['locked for ever', 'call failed', 'goal missed'] },
    // The first one that gets in fails, and cannot release.
    11: { must: ['locked for ever', 'call failed'], may: ['goal missed'] },
    [OURS]: HELD,
  },
  failover: {
    ...from('5', '16b', LOST),
    14: LATE,
    15: LATE,
    // For a moment two callers have the lock, until the first one asks. The fence lets them write one after the other.
    [OURS]: { must: [], may: ['two holders', 'nobody was told'] },
  },
  hang: {
    5: LOST,
    6: HELD,
    ...from('7', '13b', LOST),
    14: LATE,
    15: LATE,
    16: FAILED,
    '16b': LOST,
    [OURS]: HELD,
  },
  forgets: ONLY_OURS_HOLDS,
  // As in a failover: until its next renewal, the first one does not know, and the fence lets one of them write.
  'node-clock': { 18: LOST, [OUR_QUORUM]: { must: [], may: ['two holders', 'nobody was told'] } },
  'most-die': ONLY_OURS_HOLDS,
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

/**
 * Whether a trial has found that a lock is unsafe which should be safe. No repeat can take that back. A lock without
 * renewal is no such lock: on a busy machine, any work may outlive its expiry.
 */
export function isUnsafe(trial: Trial): boolean {
  const { traits = [] } = STAGES.find(({ id }) => id === trial.stage) ?? {};
  if (traits.includes('expiry') && !traits.includes('renewal')) return false;
  return addedTo(expectationOf(trial) ?? HELD, trial).some((finding) => UNSAFE.includes(finding));
}

/** Whether the table says anything about the pair. A test compares this with what can happen. */
export function isExpected(accident: string, stage: string): boolean {
  return EXPECTED[accident]?.[stage] !== undefined;
}

function expectationOf({ accident, stage }: Trial): Expectation | undefined {
  return EXPECTED[accident]?.[stage];
}

function addedTo({ must, may = [] }: Expectation, { findings }: Trial): Finding[] {
  return findings.filter((finding) => !must.includes(finding) && !may.includes(finding));
}

/** The same for all stages from one to another. */
function from(first: string, last: string, expectation: Expectation): Record<string, Expectation> {
  const ids = STAGES.map(({ id }) => id);
  const range = ids.slice(ids.indexOf(first), ids.indexOf(last) + 1);
  return Object.fromEntries(range.map((id) => [id, expectation]));
}
