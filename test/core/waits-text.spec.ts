import { describe, expect, it } from '@jest/globals';
import { readWaits, writtenWaits } from '../../libs/nestjs-locked/src/core/deadlocks/waits-text.js';
import type { LockWait } from '../../libs/nestjs-locked/src/core/lock-info.js';

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

function forged(change: Record<string, unknown>, ofWait: Record<string, unknown> = {}): string {
  const written = JSON.parse(writtenWaits([WAIT])) as { waits: [object] };
  const [wait] = written.waits;
  return JSON.stringify({ ...written, waits: [{ ...wait, ...ofWait }], ...change });
}

describe('the waits of a process in a message', () => {
  it('are read as they were written', () => {
    const other = { ...WAIT, id: '8', label: undefined, holds: [] };
    expect(readWaits(writtenWaits([WAIT, other]))).toEqual([WAIT, other]);
    expect(readWaits(writtenWaits([]))).toEqual([]);
    expect(readWaits(forged({}, { later: 'version' }))).toEqual([WAIT]);
  });

  it('are cut if there are too many', () => {
    const many = Array.from({ length: 50 }, () => ({
      ...WAIT,
      holds: Array<string>(50).fill('a'),
    }));
    const read = readWaits(writtenWaits(many)) ?? [];
    expect(read.map(({ holds }) => holds.length)).toEqual(Array(20).fill(20));
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
  ])('are unknown if the message has %s', (_what, text) => {
    expect(readWaits(text)).toBeUndefined();
  });
});
