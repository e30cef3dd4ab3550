import { describe, expect, it } from '@jest/globals';
import { spawn } from 'node:child_process';
import { endWithTests } from '../../../test/support/end-with-tests.js';
import { UNGUARDED } from '../../../test/support/run-command.js';

/** Enough to see what is broken on purpose. */
const FEW_CALLS = 'acquire,with-lock,re-entry,try';
const BROKEN = ['--seed', '1', '--only', FEW_CALLS, '--stage'];

/** Runs the built torture program. */
async function torture(...args: string[]): Promise<{ code: number | null; output: string }> {
  // It notices by itself what the guard would notice, and is told to do so on purpose here.
  const child = spawn(process.execPath, ['tools/torture/dist/main.js', ...args], {
    env: { ...process.env, ...UNGUARDED },
  });
  endWithTests(child);
  let output = '';
  child.stdout.on('data', (text: Buffer) => (output += text.toString()));
  child.stderr.on('data', (text: Buffer) => (output += text.toString()));
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { code, output };
}

/** Long enough for one fault, which takes some seconds, and for what comes after it. */
const ONE_FAULT = ['--seed', '7', '--seconds', '10', '--processes', '3'];

describe('torture', () => {
  it('a short run with all kinds of calls, under random faults, is clean', async () => {
    const { code, output } = await torture(
      ...['--seed', '7', '--seconds', '8', '--processes', '3', '--stage', 'single'],
    );
    expect(output).toMatch(/\nclean\n$/);
    expect(code).toBe(0);
  });

  it.each([
    ['sentinel', 'sentinels-fail-over,master-killed,master-stopped'],
    ['cluster', 'slot-moved,cluster-fails-over,master-killed,master-stopped'],
  ])('a short run on stage %s, with %s, is clean', async (stage, faults) => {
    const { code, output } = await torture(...ONE_FAULT, '--stage', stage, '--only', faults);
    expect(output).toMatch(/\nfaults: \{"(?:sentinels|cluster|master|slot) [^,]+":\d/);
    expect(output).toMatch(/\nclean\n$/);
    expect(code).toBe(0);
  });

  it.each(['single', 'sentinel', 'cluster'])(
    'on stage %s: sees what breaks the lock on purpose: holders, tokens, a process that lives on',
    async (stage) => {
      const breaks = ['--break', 'release,token,warning,exit'];
      const { code, output } = await torture(...BROKEN, stage, '--seconds', '4', ...breaks);
      expect(output).toMatch(/VIOLATION of exclusion: two holders of/);
      expect(output).toMatch(/VIOLATION of tokens: token of \w+ did not rise/);
      expect(output).toMatch(/VIOLATION of processes: p\d: warning MaxListenersExceededWarning/);
      expect(output).toMatch(/VIOLATION of processes: p\d: lived on .*\bTimeout/);
      expect(code).toBe(1);
    },
  );

  // By itself, and for longer: few calls may happen to wait for this key.
  it('sees a key that nobody has', async () => {
    const { code, output } = await torture(
      ...BROKEN,
      'single',
      '--seconds',
      '10',
      '--break',
      'keep',
    );
    expect(output).toMatch(/VIOLATION of waits: b was free for more than/);
    expect(code).toBe(1);
  });

  it('sees a rejection that nobody handled', async () => {
    const { code, output } = await torture(
      ...BROKEN,
      'single',
      '--seconds',
      '2',
      '--break',
      'crash',
    );
    expect(output).toMatch(/VIOLATION of processes: p\d: unhandledRejection: Error: on purpose/);
    expect(output).toMatch(/VIOLATION of processes: p\d ended with exit code 1/);
    expect(code).toBe(1);
  });

  it.each([
    [['--seed', 'x'], "--seed is 'x': give a whole number from 0"],
    [['--without', 'calls'], "--without is 'calls': give one of faults, acquire"],
    [['--leasses', '5'], "Unknown option '--leasses'"],
    [['--transactions', '--stage', 'single'], "Unknown option '--stage'"],
  ])('refuses %j, and says what is allowed', async (args, message) => {
    const { code, output } = await torture(...args);
    expect(output).toContain(message);
    expect(output).toContain('npm run torture -- --transactions');
    expect(output).not.toMatch(/^ +at /m); // no stack
    expect(code).toBe(1);
  });

  it('tells its options', async () => {
    const { code, output } = await torture('--help');
    expect(output).toContain('[--stage single|replicated|');
    expect(code).toBe(0);
  });
});
