/** The arithmetic behind docs/growth.md, and that the page shows what comes out of it. */
import { describe, expect, it } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { cellsOf, readDocument, ROOT, tablesBelow } from '../../../test/api/markdown.js';
import { runCommand } from '../../../test/support/run-command.js';
import { answerFor, ASSUMED, growthTables } from '../src/growth/growth-tables.js';
import { busiestShare, type KeyShares, keyShares, slotOf } from '../src/growth/key-shares.js';
import { busiestCore, mastersNeeded } from '../src/growth/masters-needed.js';

const measured = JSON.parse(
  readFileSync(join(ROOT, 'tools/bench/results/growth.json'), 'utf8'),
) as Record<keyof typeof costs | 'freeLockAloneUs' | 'freeLockBatchedUs', number>;

/** Numbers with which one can do sums in one's head. */
const costs = {
  freeLockUs: 10,
  contendedLockUs: 100,
  messagesPerContendedLock: 3,
  messageToItsMasterPerNodeUs: 1,
  messageToOtherNodeUs: 2,
};
const load = { rate: 100_000, contended: 0, replicas: 1, headroom: 0.5 };
/** Every slot has the same to do. */
const even = { upTo: Array.from({ length: 16_385 }, (_, slot) => slot / 16_384), hottestKey: 0 };

describe('shares of keys', () => {
  it('slots are those of Redis', () => {
    expect(['foo', 'bar', 'hello', '123456789'].map(slotOf)).toEqual([12_182, 5_061, 866, 12_739]);
  });

  it('the n-th key is asked for as 1 / n^skew', () => {
    const shares = keyShares({ keys: 3, skew: 1 });
    expect(['1', '2', '3'].map((key) => shareOf(key, shares))).toEqual(
      [6 / 11, 3 / 11, 2 / 11].map((share) => expect.closeTo(share, 9) as unknown),
    );
    expect(shares.hottestKey).toBeCloseTo(6 / 11);
    expect(shares.upTo.at(-1)).toBeCloseTo(1);
  });

  it('hot keys reach the server once for each lease', () => {
    const shares = keyShares({ keys: 2, skew: 0, hotKeys: 1, holdsPerLease: 4 });
    expect(shareOf('1', shares)).toBeCloseTo(0.125);
    expect(shareOf('2', shares)).toBeCloseTo(0.5);
    expect(shares.upTo.at(-1)).toBeCloseTo(0.625);
  });

  it('the busiest master has at least its part, and all of a single key', () => {
    const many = keyShares({ keys: 100_000, skew: 0 });
    expect(busiestShare(many, 10)).toBeGreaterThan(0.1);
    expect(busiestShare(many, 10)).toBeLessThan(0.11);
    expect(busiestShare(keyShares({ keys: 1, skew: 0 }), 10)).toBe(1);
  });
});

describe('masters needed', () => {
  it('counts the locks of the busiest master, free and contended', () => {
    expect(busiestCore(load, even, costs, 1)).toBeCloseTo(1);
    expect(busiestCore({ ...load, contended: 0.1 }, even, costs, 1)).toBeCloseTo(1.9);
    expect(busiestCore(load, even, costs, 4)).toBeCloseTo(0.25);
  });

  it('counts messages on their own master for each other node, and on all others', () => {
    const contended = { ...load, contended: 0.1 };
    // 25,000 of 100,000 locks, a tenth of them with 3 messages to 7 other nodes, and 3 messages of 7,500 others.
    const locks = 25_000 * (0.9 * 10 + 0.1 * 100);
    const sent = 25_000 * 0.1 * 3 * 7;
    const received = 75_000 * 0.1 * 3 * 2;
    expect(busiestCore(contended, even, costs, 4)).toBeCloseTo((locks + sent + received) / 1e6);
  });

  it('gives the smallest number that leaves the headroom', () => {
    expect(mastersNeeded({ ...load, rate: 50_000 }, even, costs)).toBe(1);
    expect(mastersNeeded({ ...load, rate: 1_000_000 }, even, costs)).toBeGreaterThanOrEqual(20);
    expect(mastersNeeded({ ...load, rate: 1_000_000 }, even, costs)).toBeLessThan(22);
  });

  it('knows no cluster of two masters', () => {
    expect(mastersNeeded({ ...load, rate: 60_000 }, even, costs)).toBe(3);
  });

  it('says when no number is enough: a key that is too hot, or messages to every node', () => {
    const oneKey = keyShares({ keys: 1, skew: 0 });
    expect(mastersNeeded(load, oneKey, costs)).toBeUndefined();
    expect(mastersNeeded({ ...load, contended: 1 }, even, costs)).toBeUndefined();
  });
});

describe('docs/growth.md', () => {
  const page = readDocument('docs/growth.md');

  it('has the first table of npm run bench:growth', () => {
    const [masters = ''] = growthTables(measured).split('\n\n');
    const printed = masters.split('\n').slice(2).map(cellsOf);
    expect(tablesBelow('How far it goes', page)).toEqual([printed]);
  });

  it('names the costs that were measured', () => {
    const [costsOnPage = []] = tablesBelow('What one server does', page);
    const { freeLockAloneUs, freeLockUs, freeLockBatchedUs, contendedLockUs } = measured;
    expect(costsOnPage.map(([, us]) => Number(us))).toEqual(
      [freeLockAloneUs, freeLockUs, freeLockBatchedUs, contendedLockUs].map(Math.round),
    );
    const perServer = ((1 - ASSUMED.headroom) * 1e6) / freeLockUs;
    expect(page.text).toContain(
      `${(Math.round(perServer / 100) * 100).toLocaleString('en-US')} locks a second`,
    );
    expect(page.text).toContain(
      `${measured.messageToItsMasterPerNodeUs.toFixed(1)} µs for the publishing master`,
    );
    expect(page.text).toContain(
      `${measured.messageToOtherNodeUs.toFixed(1)} µs for the node that gets it`,
    );
    expect(measured.messagesPerContendedLock).toBe(3);
  });
});

describe('npm run bench:growth', () => {
  it('answers for one load', async () => {
    const args = ['tools/bench/dist/growth/main.js', '--rate', '1000000', '--skew', '1'];
    const { code, stdout } = await runCommand(process.execPath, args, ROOT);
    const shown = { ...ASSUMED, rate: 1_000_000, contended: 0, skew: 1 };
    expect([code, stdout.trim()]).toEqual([0, answerFor(shown, measured)]);
    expect(stdout).toMatch(
      /^No number of masters is enough\. The hottest key is taken \d\d,\d{3} times/,
    );
  });

  it('refuses what is no number', async () => {
    const args = ['tools/bench/dist/growth/main.js', '--rate', 'many'];
    const { code, stderr } = await runCommand(process.execPath, args, ROOT);
    expect([code, stderr.trim()]).toEqual([1, "--rate is 'many': give a number from 0"]);
  });
});

function shareOf(key: string, { upTo }: KeyShares): number {
  const slot = slotOf(key);
  return (upTo[slot + 1] ?? NaN) - (upTo[slot] ?? NaN);
}
