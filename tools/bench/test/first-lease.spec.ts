/** The arithmetic behind docs/first-lease.md, and that the page shows what comes out of it. */
import { describe, expect, it } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { cellsOf, readDocument, ROOT, tablesBelow } from '../../../test/api/markdown.js';
import { CONDITIONS, type StallKind, WORK } from '../src/first-lease/conditions.js';
import { evaluate, type Leases } from '../src/first-lease/evaluate.js';
import { PICTURES } from '../src/first-lease/picture.js';
import { RULES } from '../src/first-lease/rules.js';
import { firstLeaseTables } from '../src/first-lease/tables.js';

const third = (leaseS: number): number => leaseS / 3;
const THIRTY: Leases = { firstS: 30, leaseS: 30, renewedAfter: third };

/** One a second, each as long as this. */
function stallsOf(seconds: number): StallKind {
  return { everyS: 1, outlasts: (leftS) => (leftS < seconds ? 1 : 0), draw: () => seconds };
}

describe('what a lease costs and gives', () => {
  it.each([
    ['a crash at any moment of a hold that is not renewed leaves what is left', 6, 27],
    ['a longer hold has a renewed lease in all of its thirds alike', 30, 25],
    ['its last third may be a part', 15, (25 * 10 + 27.5 * 5) / 15],
  ])('%s', (_, holdS, freeAfterS) => {
    expect(evaluate(THIRTY, [holdS], []).freeAfterS).toBeCloseTo(freeAfterS, 1);
  });

  it('a crash meets a hold as often as it is long', () => {
    const { freeAfterS } = evaluate(THIRTY, [0.001, 30], []);
    expect(freeAfterS).toBeCloseTo(25, 1);
  });

  it('a short first lease ends with the first renewal', () => {
    const leases = { ...THIRTY, firstS: 3 };
    expect(evaluate(leases, [1], []).freeAfterS).toBeCloseTo(2.5, 1);
    expect(evaluate(leases, [11], []).freeAfterS).toBeCloseTo((2.5 + 250) / 11, 1);
  });

  it.each([
    ['none that fits into two thirds', 19.9, 10, 0],
    ['one that begins when less is left than it takes', 25, 10, 5],
    ['each that is longer than the lease', 31, 10, 10],
  ])('stalls end a lease: %s', (_, stallS, holdS, perHold) => {
    const { lostPerMillion } = evaluate(THIRTY, [holdS], [stallsOf(stallS)]);
    expect(lostPerMillion / 1e6).toBeCloseTo(perHold, 1);
  });
});

describe('the conditions', () => {
  it('know how often a stall outlasts its median', () => {
    const [short, long] = CONDITIONS['throttled'] as readonly [StallKind, StallKind];
    expect(short.outlasts(0.06)).toBeCloseTo(0.5, 6);
    expect(long.outlasts(0.9 * Math.exp(0.5))).toBeCloseTo(0.158_655, 6);
    expect(long.outlasts(0.9 * Math.exp(2.5))).toBeCloseTo(2.866_5e-7, 10); // five times the spread
  });
});

describe('the rules', () => {
  const cost = (rule: string, condition: string, work: string) =>
    RULES[rule]?.(WORK[work] ?? [], CONDITIONS[condition] ?? []) ?? {
      freeAfterS: 0,
      lostPerMillion: 0,
    };

  it('a learned lease is short where processes are calm, and long where they are not', () => {
    const learned = 'first learned, then 30 s';
    const of = (condition: string) => cost(learned, condition, 'a refill, 300 ms').freeAfterS;
    expect(of('calm')).toBeLessThan(10);
    expect(of('throttled')).toBeGreaterThan(15);
    expect(of('long collections')).toBeGreaterThan(20);
    for (const condition of Object.keys(CONDITIONS)) {
      const { lostPerMillion } = cost(learned, condition, 'a refill, 300 ms');
      expect(lostPerMillion).toBeLessThan(
        cost('always 5 s', condition, 'a refill, 300 ms').lostPerMillion,
      );
      expect(cost(learned, condition, 'a job, 5 s')).toEqual(
        cost('always 30 s', condition, 'a job, 5 s'),
      );
    }
  });
});

describe('docs/first-lease.md', () => {
  const page = readDocument('docs/first-lease.md');

  it.each([...firstLeaseTables()])('has the table that is computed: %s', (condition, table) => {
    expect(tablesBelow(condition, page)).toEqual([table.split('\n').slice(2).map(cellsOf)]);
  });

  it.each([...PICTURES])('has the picture that is drawn: %s', (name, svg) => {
    expect(readFileSync(join(ROOT, 'docs/first-lease', name), 'utf8')).toBe(svg);
  });
});
