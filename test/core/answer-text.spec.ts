import { describe, expect, it } from '@jest/globals';
import {
  readAnswer,
  writtenAnswer,
} from '../../libs/nestjs-locked/src/core/deadlocks/answer-text.js';
import type { LockWait } from '../../libs/nestjs-locked/src/core/lock-info.js';
import type { PresentCall } from '../../libs/nestjs-locked/src/core/store/holder-question.js';

const WAIT: LockWait = {
  processId: 'f'.repeat(32),
  host: 'app-3',
  pid: 4711,
  id: '7',
  label: 'Stock.take “it”\nnow',
  key: 'stock:4 2',
  since: new Date(1_800_000_000_000),
  holds: ['order:7', 'order:8'],
};

const CALL: PresentCall = {
  label: 'Stock.give “it”\nback',
  since: new Date(1_800_000_000_500),
  fencingToken: 1_800_000_000_500_001,
  traceParent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
};

function forged(
  change: Record<string, unknown>,
  ofWait: Record<string, unknown> = {},
  ofCall: Record<string, unknown> = {},
): string {
  const written = JSON.parse(writtenAnswer(WAIT, { call: CALL, waits: [WAIT] })) as {
    waits: [object];
    call: object;
  };
  const { waits, call } = written;
  const [wait] = waits;
  return JSON.stringify({
    ...written,
    waits: [{ ...wait, ...ofWait }],
    call: { ...call, ...ofCall },
    ...change,
  });
}

describe('what a process says about a key', () => {
  it('is read as it was written', () => {
    const other = { ...WAIT, id: '8', label: undefined, holds: [] };
    const state = { call: CALL, waits: [WAIT, other] };
    expect(readAnswer(writtenAnswer(WAIT, state))).toEqual(state);
    const nameless = { ...CALL, label: undefined, traceParent: undefined };
    const alone = { call: nameless, waits: [] };
    expect(readAnswer(writtenAnswer(WAIT, alone))).toEqual(alone);
    const later = { later: 'version' };
    expect(readAnswer(forged(later, later, later))).toEqual({ call: CALL, waits: [WAIT] });
  });

  it('is that no call has it, or that the process does not have it, which is something else', () => {
    expect(readAnswer(writtenAnswer(WAIT, { call: null, waits: [] }))?.call).toBeNull();
    expect(readAnswer(writtenAnswer(WAIT, undefined))).toEqual({ call: undefined, waits: [] });
  });

  it('is unknown of the call if its version names none', () => {
    expect(readAnswer(forged({ call: undefined }))).toEqual({ call: undefined, waits: [WAIT] });
  });

  it('is cut if there are too many waits', () => {
    const many = Array.from({ length: 150 }, () => ({
      ...WAIT,
      holds: Array<string>(50).fill('a'),
    }));
    const { waits = [] } = readAnswer(writtenAnswer(WAIT, { call: null, waits: many })) ?? {};
    expect(waits.map(({ holds }) => holds.length)).toEqual(Array(100).fill(20));
  });

  it.each([
    ['no JSON', '{'],
    ['null', 'null'],
    ['a list', '[]'],
    ['no process', forged({ process: undefined })],
    ['a wrong host', forged({ host: 1 })],
    ['a wrong process id', forged({ pid: '4711' })],
    ['no waits', forged({ waits: 'a' })],
    ['a wait that is none', forged({ waits: [1] })],
    ['a wrong id', forged({}, { id: 7 })],
    ['a wrong label', forged({}, { label: {} })],
    ['a wrong key', forged({}, { key: null })],
    ['no date', forged({}, { since: 'yesterday' })],
    ['a text that only counts as a number', forged({}, { since: ' ' })],
    ['a list that only counts as a number', forged({}, { since: [] })],
    ['a date that no clock shows', forged({}, { since: 1e300 })],
    ['wrong keys', forged({}, { holds: [1] })],
    ['a call that is none', forged({ call: 'a' })],
    ['a wrong label of the call', forged({}, {}, { label: 7 })],
    ['no date of the call', forged({}, {}, { since: null })],
    ['a wrong number', forged({}, {}, { fence: '1' })],
    ['a wrong trace', forged({}, {}, { trace: {} })],
  ])('is unknown if the message has %s', (_what, text) => {
    expect(readAnswer(text)).toBeUndefined();
  });
});
