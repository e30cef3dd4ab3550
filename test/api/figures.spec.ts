/** Figures that a page repeats from the page where they were measured: one of them is not changed alone. */
import { describe, expect, it } from '@jest/globals';
import { type Document, readDocument, tablesBelow } from './markdown.js';

const number = (text = ''): number => Number(/^[\d,.]+/.exec(text)?.[0].replaceAll(',', ''));

describe('docs/growth.md', () => {
  const benchmarks = readDocument('docs/benchmarks.md');

  it('has the locks per second of the benchmarks, rounded', () => {
    const measured = [
      'One caller, one key after the other, no contention',
      '64 callers on 64 keys',
      '4 processes with 8 callers each, one key',
      '32 callers of one process, one key',
    ].map((scenario) => number(rowOf('nestjs-locked', scenario, benchmarks)[1]));
    const [onPage = []] = tablesBelow('What one server does', readDocument('docs/growth.md'));
    expect(onPage).toHaveLength(measured.length);
    for (const [i, [, rate]] of onPage.entries()) {
      const ratio = number(rate) / (measured[i] as number);
      expect(ratio).toBeGreaterThan(0.98);
      expect(ratio).toBeLessThan(1.02);
    }
  });
});

function rowOf(name: string, heading: string, page: Document): string[] {
  const [table = []] = tablesBelow(heading, page);
  const row = table.find(([first]) => first === name);
  if (row === undefined) throw new Error(`${page.path}, ${heading}: there is no row ${name}`);
  return row;
}
