import { describe, expect, it } from '@jest/globals';
import { checkBooks } from '../src/transactions/book-checker.js';
import type { AuditRow, SaleEntry, SaleRow } from '../src/transactions/sales-history.js';

describe('the checker of books', () => {
  const asked = (call: string): SaleEntry => ({ kind: 'asked', call, pieces: { a: 1, note: 2 } });
  const row = (call: string, product: string, run = 1, late = false): SaleRow => ({
    call,
    run,
    product,
    late,
  });
  const whole = (call: string, run = 1): SaleRow[] => [
    row(call, 'a', run),
    row(call, 'note', run),
    row(call, 'note', run),
  ];
  const violations = (
    history: SaleEntry[],
    rows: SaleRow[],
    left?: number,
    audits: AuditRow[] = [],
  ): string[] => {
    const sold = rows.filter(({ product }) => product === 'a').length;
    const books = { before: { a: 100 }, after: { a: left ?? 100 - sold }, rows, audits };
    return [...checkBooks(history, books).violations];
  };
  const acknowledged: SaleEntry = { kind: 'acknowledged', call: 'x', run: 2 };
  const refused: SaleEntry = { kind: 'refused', call: 'x', run: 2, why: 'meant to fail' };
  const unknown: SaleEntry = { kind: 'unknown', call: 'x', run: 2, why: 'connection lost' };

  it('accepts what was acknowledged and is written, and what was refused and is not', () => {
    expect(violations([asked('x'), acknowledged], whole('x', 2))).toEqual([]);
    expect(violations([asked('x'), refused], [])).toEqual([]);
  });

  it('sees what was acknowledged, and is not written, or by half, or twice', () => {
    for (const rows of [[], whole('x', 2).slice(1), [...whole('x', 2), row('x', 'note', 2)]]) {
      const [first = ''] = violations([asked('x'), acknowledged], rows);
      expect(first).toMatch(/^x was acknowledged, and written by half/);
    }
  });

  it('sees what was refused, and is written', () => {
    const [first = ''] = violations([asked('x'), refused], [row('x', 'note', 2)]);
    expect(first).toMatch(/^x was refused \(meant to fail\), and written/);
  });

  it('sees what an earlier run has written, even if nobody has awaited it', () => {
    expect(violations([asked('x'), acknowledged], [...whole('x', 2), row('x', 'note', 1)])).toEqual(
      ['x has rows of the runs 2, 1'],
    );
    expect(violations([asked('x'), refused], [row('x', 'note', 1, true)])).toEqual([
      'x has rows of run 1, its last run was 2',
    ]);
  });

  it('lets what nobody has awaited come with the last run, or after it', () => {
    const late = row('x', 'note', 2, true);
    expect(violations([asked('x'), acknowledged], [...whole('x', 2), late])).toEqual([]);
    expect(violations([asked('x'), refused], [late])).toEqual([]);
  });

  it('accepts all or nothing where there is no answer, and nothing in between', () => {
    for (const history of [[asked('x'), unknown], [asked('x')]]) {
      expect(violations(history, whole('x', 2))).toEqual([]);
      expect(violations(history, [])).toEqual([]);
      expect(violations(history, [row('x', 'a', 2)])).toHaveLength(1);
    }
  });

  it('sees pieces that are gone without a row, and rows without a piece', () => {
    expect(violations([asked('x'), acknowledged], whole('x', 2), 98)).toEqual([
      'a: 2 pieces are gone, 1 rows were written',
    ]);
    expect(violations([asked('x'), acknowledged], whole('x', 2), 100)).toEqual([
      'a: 0 pieces are gone, 1 rows were written',
    ]);
  });

  it('sees that many have waited for their locks in vain, not that a few have', () => {
    const some = (refusals: number, calls: number): SaleEntry[] =>
      Array.from({ length: calls }, (_, n) => [
        { ...asked(`${n}`), kind: 'asked' as const, pieces: {} },
        n < refusals
          ? { ...refused, call: `${n}`, why: 'LOCK_NOT_ACQUIRED' }
          : { ...acknowledged, call: `${n}` },
      ]).flat();
    expect(violations(some(20, 40), [])).toEqual([]);
    expect(violations(some(21, 40), [])).toEqual([
      '21 of 40 calls have waited for their locks in vain',
    ]);
    expect(violations(some(30, 300), [])).toEqual([]);
    expect(violations(some(31, 300), [])).toEqual([
      '31 of 300 calls have waited for their locks in vain',
    ]);
  });

  it('accepts that many have waited in vain for what nobody gives back: after a kill, a stop, a COMMIT without an answer', () => {
    const asks = (call: string, at: number): SaleEntry => ({ ...asked(call), at });
    const vain = (from: number): SaleEntry[] =>
      Array.from({ length: 30 }, (_, n): SaleEntry[] => [
        asks(`p/${n}`, from),
        { kind: 'refused', call: `p/${n}`, run: 1, why: 'LOCK_NOT_ACQUIRED', at: from + 10_000 },
      ]).flat();
    const unanswered = [asks('q/1', 0), { ...unknown, call: 'q/1', at: 10_000 }];
    const killed = [asks('k/1', 10_000)];
    const stopped = [
      asks('s/1', 0),
      { kind: 'stood still' as const, call: 's/', ms: 5_000, at: 15_000 },
      { ...refused, call: 's/1', at: 15_000 },
    ];
    for (const reason of [unanswered, killed, stopped]) {
      expect(violations([...reason, ...vain(9_000)], [])).toEqual([]);
      // It was nearly over when they began to wait.
      expect(violations([...reason, ...vain(14_000)], [])).toEqual([
        '30 of 31 calls have waited for their locks in vain',
      ]);
    }
  });

  it('sees what was written although a lock was lost before the COMMIT', () => {
    const robbed: SaleEntry = { kind: 'robbed', call: 'x', run: 2 };
    const text = 'x was written although it had lost a lock before its COMMIT';
    expect(violations([asked('x'), robbed, acknowledged], whole('x', 2))).toEqual([text]);
    expect(violations([asked('x'), robbed, refused], [])).toEqual([]);
    // The lock of an earlier run was lost, and the call was run again.
    expect(violations([asked('x'), { ...robbed, run: 1 }, acknowledged], whole('x', 2))).toEqual(
      [],
    );
  });

  it('sees audit rows that are gone, and those that were refused because of locks', () => {
    const audited: SaleEntry = { kind: 'audited', call: 'x', run: 2 };
    const history = [asked('x'), audited, refused];
    expect(violations(history, [])).toEqual([
      'the audit row of x was acknowledged, and is not written',
    ]);
    expect(violations(history, [], 100, [{ call: 'x', run: 2 }])).toEqual([]);
    const unaudited: SaleEntry = {
      kind: 'unaudited',
      call: 'x',
      run: 2,
      why: 'LOCK_IN_TRANSACTION',
    };
    expect(violations([asked('x'), unaudited, refused], [])).toEqual([
      'the audit row of x, which asks for no lock, was refused: LOCK_IN_TRANSACTION',
    ]);
  });

  it('sees a COMMIT without an answer that nobody gives up', () => {
    const committing = (ms: number): SaleEntry => ({ kind: 'committing', call: 'x', ms });
    expect(violations([asked('x'), committing(7_000), unknown], [])).toEqual([]);
    expect(violations([asked('x'), committing(9_000), unknown], [])).toEqual([
      'the COMMIT of x was not given up for 9000 ms',
    ]);
    const unlocked: SaleEntry = { kind: 'asked', call: 'x', pieces: {}, style: 'unlocked' };
    expect(violations([unlocked, committing(9_000), unknown], [])).toEqual([]);
  });

  it('sees a way to sell that never sells anything', () => {
    const failing = (n: number): SaleEntry[] => [
      { kind: 'asked', call: `${n}`, pieces: {}, style: 'hooks' },
      { ...refused, call: `${n}` },
    ];
    const many = Array.from({ length: 10 }, (_, n) => failing(n)).flat();
    expect(violations(many, [])).toEqual(['no call of the style hooks has sold anything']);
    const sold: SaleEntry[] = [
      { kind: 'asked', call: 'x', pieces: {}, style: 'hooks' },
      { ...acknowledged, call: 'x' },
    ];
    expect(violations([...many, ...sold], [])).toEqual([]);
  });

  it('takes a lock that others had for a small sign of that', () => {
    const busy = (calls: number): SaleEntry[] =>
      Array.from({ length: calls }, (_, n): SaleEntry[] => [
        { kind: 'asked', call: `${n}`, pieces: {}, style: 'join' },
        { ...refused, call: `${n}`, why: 'join: LOCK_NOT_ACQUIRED' },
      ]).flat();
    expect(violations(busy(99), [])).toEqual([]);
    expect(violations(busy(100), [])).toEqual(['no call of the style join has sold anything']);
  });

  it('sees rows of calls that nobody has made', () => {
    expect(violations([], [row('y', 'note')])).toEqual(['y has rows, and was never asked for']);
  });
});
