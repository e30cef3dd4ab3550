import { describe, expect, it } from '@jest/globals';
import { checkBooks } from '../src/transactions/book-checker.js';
import type { Run, SaleEntry, SaleKinds, SaleRow } from '../src/transactions/sales-history.js';

type OfCall = Exclude<keyof SaleKinds, 'stalled' | 'killed' | 'exited'>;

/** An entry, by default of the second run of call x. */
function entry<Kind extends OfCall>(
  kind: Kind,
  told: Partial<SaleEntry<Kind>> = {},
): SaleEntry<Kind> {
  const pieces = { a: 1, note: 2 };
  const usual = { at: 0, call: 'x', run: 2, pieces, style: 'outside', why: 'meant to fail', ms: 0 };
  return { kind, ...usual, ...told };
}

/** Calls that sell nothing, and their ends. */
function calls(count: number, end: OfCall, told: { why?: string; style?: string } = {}) {
  return Array.from({ length: count }, (_, n) => {
    const call = `${end} ${n}`;
    return [entry('asked', { ...told, call, pieces: {} }), entry(end, { ...told, call })];
  }).flat();
}

function row(call: string, product: string, run = 1, late = false): SaleRow {
  return { call, run, product, late };
}

/** All rows of call x. */
function whole(run = 2): SaleRow[] {
  return ['a', 'note', 'note'].map((product) => row('x', product, run));
}

function violations(
  history: SaleEntry[],
  rows: SaleRow[] = [],
  left?: number,
  audits: Run[] = [],
): string[] {
  const sold = rows.filter(({ product }) => product === 'a').length;
  const books = { before: { a: 100 }, after: { a: left ?? 100 - sold }, rows, audits };
  return checkBooks(history, books).violations.map(({ text }) => text);
}

describe('the checker of books', () => {
  const asked = entry('asked');
  const acknowledged = [asked, entry('acknowledged')];
  const refused = [asked, entry('refused')];
  const unknown = [asked, entry('unknown')];

  it('accepts what was acknowledged and is written, and what was refused and is not', () => {
    expect(violations(acknowledged, whole())).toEqual([]);
    expect(violations(refused)).toEqual([]);
  });

  it('sees what was acknowledged, and is not written, or by half, or twice', () => {
    for (const rows of [[], whole().slice(1), [...whole(), row('x', 'note', 2)]]) {
      const [first = ''] = violations(acknowledged, rows);
      expect(first).toMatch(/^x was acknowledged, and written by half/);
    }
  });

  it('sees what was refused, and is written', () => {
    const [first = ''] = violations(refused, [row('x', 'note', 2)]);
    expect(first).toMatch(/^x was refused \(meant to fail\), and written/);
  });

  it('sees what an earlier run has written, even if nobody has awaited it', () => {
    expect(violations(acknowledged, [...whole(), row('x', 'note', 1)])).toEqual([
      'x has rows of the runs 2, 1',
    ]);
    expect(violations(refused, [row('x', 'note', 1, true)])).toEqual([
      'x has rows of run 1, its last run was 2',
    ]);
  });

  it('lets what nobody has awaited come with the last run, or after it', () => {
    const late = row('x', 'note', 2, true);
    expect(violations(acknowledged, [...whole(), late])).toEqual([]);
    expect(violations(refused, [late])).toEqual([]);
  });

  it('accepts all or nothing where there is no answer, and nothing in between', () => {
    for (const history of [unknown, [asked]]) {
      expect(violations(history, whole())).toEqual([]);
      expect(violations(history)).toEqual([]);
      expect(violations(history, [row('x', 'a', 2)])).toHaveLength(1);
    }
  });

  it('sees pieces that are gone without a row, and rows without a piece', () => {
    for (const [left, gone] of [
      [98, 2],
      [100, 0],
    ] as const) {
      const message = `a: ${gone} pieces are gone, 1 rows were written`;
      expect(violations(acknowledged, whole(), left)).toEqual([message]);
    }
  });

  it('sees that many have waited for their locks in vain, not that a few have', () => {
    const some = (refusals: number, all: number): SaleEntry[] => [
      ...calls(refusals, 'refused', { why: 'LOCK_NOT_ACQUIRED' }),
      ...calls(all - refusals, 'acknowledged'),
    ];
    for (const [few, many, all] of [
      [20, 21, 40],
      [30, 31, 300],
    ] as const) {
      expect(violations(some(few, all))).toEqual([]);
      const message = `${many} of ${all} calls have waited for their locks in vain`;
      expect(violations(some(many, all))).toEqual([message]);
    }
  });

  it('accepts that many have waited in vain for what nobody gives back: after a kill, a stop, a COMMIT without an answer', () => {
    const vain = (at: number): SaleEntry[] =>
      Array.from({ length: 30 }, (_, n) => {
        const call = `p/${n}`;
        const why = 'LOCK_NOT_ACQUIRED';
        return [entry('asked', { call, at }), entry('refused', { call, why, at: at + 10_000 })];
      }).flat();
    const asks = (call: string, at: number) => entry('asked', { call, at });
    const reasons: SaleEntry[][] = [
      [asks('q/1', 0), entry('unknown', { call: 'q/1', at: 10_000 })],
      [asks('k/1', 10_000)],
      [
        asks('s/1', 0),
        { kind: 'stalled', process: 's', since: 10_000, at: 15_000 },
        entry('refused', { call: 's/1', at: 15_000 }),
      ],
    ];
    for (const reason of reasons) {
      expect(violations([...reason, ...vain(9_000)])).toEqual([]);
      // It was nearly over when they began to wait.
      expect(violations([...reason, ...vain(14_000)])).toEqual([
        '30 of 31 calls have waited for their locks in vain',
      ]);
    }
  });

  it('sees what was written although a lock was lost before the COMMIT', () => {
    const robbed = entry('robbed');
    expect(violations([...acknowledged, robbed], whole())).toEqual([
      'x was written although it had lost a lock before its COMMIT',
    ]);
    expect(violations([...refused, robbed])).toEqual([]);
    // The lock of an earlier run was lost, and the call was run again.
    expect(violations([...acknowledged, { ...robbed, run: 1 }], whole())).toEqual([]);
  });

  it('sees audit rows that are gone, and those that were refused because of locks', () => {
    const audited = [...refused, entry('audited')];
    expect(violations(audited)).toEqual([
      'the audit row of x was acknowledged, and is not written',
    ]);
    expect(violations(audited, [], 100, [{ call: 'x', run: 2 }])).toEqual([]);
    expect(violations([...refused, entry('unaudited', { why: 'LOCK_IN_TRANSACTION' })])).toEqual([
      'the audit row of x, which asks for no lock, was refused: LOCK_IN_TRANSACTION',
    ]);
  });

  it('sees a COMMIT without an answer that nobody gives up', () => {
    const committing = (ms: number, style = 'outside') =>
      violations([{ ...asked, style }, entry('unknown'), entry('committing', { ms })]);
    expect(committing(7_000)).toEqual([]);
    expect(committing(9_000)).toEqual(['the COMMIT of x was not given up for 9000 ms']);
    expect(committing(9_000, 'unlocked')).toEqual([]);
  });

  it('sees a way to sell that never sells anything', () => {
    const many = calls(10, 'refused', { style: 'hooks' });
    expect(violations(many)).toEqual(['no call of the style hooks has sold anything']);
    const sold = [entry('asked', { style: 'hooks' }), entry('acknowledged')];
    expect(violations([...many, ...sold], whole())).toEqual([]);
  });

  it('takes a lock that others had for a small sign of that', () => {
    const busy = (count: number) =>
      violations(calls(count, 'refused', { style: 'join', why: 'join: LOCK_NOT_ACQUIRED' }));
    expect(busy(99)).toEqual([]);
    expect(busy(100)).toEqual(['no call of the style join has sold anything']);
  });

  it('sees rows of calls that nobody has made', () => {
    expect(violations([], [row('y', 'note')])).toEqual(['y has rows, and was never asked for']);
  });

  it('sees a process that did not end well', () => {
    const exited = { kind: 'exited', at: 9, process: 'p', code: 1, wasClosed: false } as const;
    expect(violations([exited])).toEqual(['p ended with exit code 1']);
  });
});
