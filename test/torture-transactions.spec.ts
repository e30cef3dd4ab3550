import { describe, expect, it } from '@jest/globals';
import { spawn } from 'node:child_process';
import { checkBooks } from '../apps/torture/src/transactions/book-checker.js';
import type { SaleEntry, SaleRow } from '../apps/torture/src/transactions/sales-history.js';

/** Runs the built torture program. */
async function torture(...args: string[]): Promise<{ code: number | null; output: string }> {
  const program = ['apps/torture/dist/main.js', '--transactions', ...args];
  const env = { ...process.env };
  delete env['NODE_OPTIONS']; // jest's
  const child = spawn(process.execPath, program, { env });
  let output = '';
  child.stdout.on('data', (text: Buffer) => (output += text.toString()));
  child.stderr.on('data', (text: Buffer) => (output += text.toString()));
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { code, output };
}

describe('torture of transactions', () => {
  it('a short run is clean: written is what was acknowledged, and nothing else', async () => {
    const { code, output } = await torture('--seed', '7', '--seconds', '8');
    expect(output).toMatch(/\nclean\n$/);
    expect(code).toBe(0);
  }, 90_000);

  it('transactions that the locks do not know are caught', async () => {
    const { code, output } = await torture('--seed', '7', '--seconds', '4', '--break');
    expect(output).toMatch(/VIOLATION: (?:plain|billing)-\d: \d+ pieces are gone, \d+ rows/);
    expect(code).toBe(1);
  }, 90_000);
});

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
  const violations = (history: SaleEntry[], rows: SaleRow[], left?: number): string[] => {
    const sold = rows.filter(({ product }) => product === 'a').length;
    const books = { before: { a: 100 }, after: { a: left ?? 100 - sold }, rows };
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
    expect(violations([asked('x'), acknowledged], [...whole('x', 2), row('x', 'note', 1)])).toEqual([
      'x has rows of the runs 2, 1',
    ]);
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

  it('sees rows of calls that nobody has made', () => {
    expect(violations([], [row('y', 'note')])).toEqual([
      'y has rows, and was never asked for',
    ]);
  });
});
