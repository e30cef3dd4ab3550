import { describe, expect, it } from '@jest/globals';
import { spawn } from 'node:child_process';
import { check } from '../apps/torture/src/checker.js';
import type { Entry } from '../apps/torture/src/history.js';

/** Runs the built torture program. */
async function torture(...args: string[]): Promise<{ code: number | null; output: string }> {
  const child = spawn(process.execPath, ['apps/torture/dist/main.js', ...args]);
  let output = '';
  child.stdout.on('data', (text: Buffer) => (output += text.toString()));
  child.stderr.on('data', (text: Buffer) => (output += text.toString()));
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { code, output };
}

describe('torture', () => {
  it('a short run under random faults is clean', async () => {
    const { code, output } = await torture('--seed', '7', '--seconds', '10');
    expect(output).toMatch(/\nclean\n$/);
    expect(code).toBe(0);
  }, 90_000);

  it('a release that does not ask whose lock it is, is caught', async () => {
    const { code, output } = await torture('--seed', '7', '--seconds', '5', '--break');
    expect(output).toContain('VIOLATION: two holders of');
    expect(code).toBe(1);
  }, 90_000);
});

describe('the checker', () => {
  const hold = (call: string, from: number, to: number, token: number): Entry[] => [
    { kind: 'asked', at: from - 1, call, key: 'k' },
    { kind: 'held', at: from, call, key: 'k', token },
    { kind: 'valid', at: from, call, until: to },
    { kind: 'ended', at: to, call, lost: undefined },
  ];
  const violations = (...history: Entry[]) =>
    check(history, { longestWaitMs: 1_000 }).violations.map((text) => text.split(':')[0]);

  it('accepts holds that follow each other with rising tokens', () => {
    expect(violations(...hold('a/1', 10, 20, 1), ...hold('b/1', 21, 30, 2))).toEqual([]);
  });

  it('sees two holders, also around a third', () => {
    const three = [...hold('a/1', 10, 90, 1), ...hold('b/1', 95, 99, 2), ...hold('c/1', 50, 60, 3)];
    expect(violations(...three)).toContain('two holders of k');
  });

  it('sees a token that does not rise', () => {
    expect(violations(...hold('a/1', 10, 20, 5), ...hold('b/1', 21, 30, 5))).toEqual([
      'token of k did not rise',
    ]);
  });

  it('counts a lost hold until its last known deadline only', () => {
    const [asked, held, valid] = hold('a/1', 10, 40, 1);
    const lost: Entry = { kind: 'ended', at: 90, call: 'a/1', lost: 'expired' };
    const killed: Entry = { kind: 'killed', at: 90, process: 'a' };
    for (const end of [lost, killed]) {
      const before = [asked!, held!, valid!, end];
      expect(violations(...before, ...hold('b/1', 41, 50, 2))).toEqual([]);
      expect(violations(...before, ...hold('b/1', 39, 50, 2))).toEqual(['two holders of k']);
    }
  });

  it('lets a killed process hold until it was killed', () => {
    const [asked, held, valid] = hold('a/1', 10, 90, 1);
    const killed: Entry = { kind: 'killed', at: 30, process: 'a' };
    const before = [asked!, held!, valid!, killed];
    expect(violations(...before, ...hold('b/1', 31, 50, 2))).toEqual([]);
    expect(violations(...before, ...hold('b/1', 29, 50, 2))).toEqual(['two holders of k']);
  });

  it('sees calls that starve, or are never answered', () => {
    const asked: Entry = { kind: 'asked', at: 1, call: 'a/1', key: 'k' };
    const refused: Entry = { kind: 'refused', at: 9, call: 'a/1', code: 'LOCK_NOT_ACQUIRED' };
    expect(violations(asked)).toEqual(['a/1 was never answered']);
    expect(violations(asked, refused)).toEqual(['a/1 starved']);
    expect(violations({ ...asked, at: -5_000 }, ...hold('a/1', 10, 20, 1).slice(1))).toEqual([
      'a call waited 5010 ms, more than 1000',
    ]);
  });
});
