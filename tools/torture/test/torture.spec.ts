import { describe, expect, it } from '@jest/globals';
import { runTorture } from './torture-program.js';

/** Enough to see what is broken on purpose. */
const FEW_CALLS = 'acquire,with-lock,re-entry,try';

/** Long enough for one fault, which takes some seconds, and for what comes after it. */
const ONE_FAULT = ['--seed', '7', '--seconds', '10', '--processes', '3'];

/** A run in which something is broken on purpose. @returns what it printed */
function broken(stage: string, rules: string, seconds: string, calls = FEW_CALLS): Promise<string> {
  const options = ['--seed', '1', '--only', calls, '--stage', stage];
  return runTorture(1, ...options, '--seconds', seconds, '--break', rules);
}

describe('torture', () => {
  it('a short run with all kinds of calls, under random faults, is clean', async () => {
    const options = ['--seed', '7', '--seconds', '8', '--processes', '3', '--stage', 'single'];
    expect(await runTorture(0, ...options)).toMatch(/\nclean\n$/);
  });

  it.each([
    ['sentinel', 'sentinels-fail-over,master-killed,master-stopped'],
    ['cluster', 'slot-moved,cluster-fails-over,master-killed,master-stopped'],
    ['quorum', 'node-restarted-empty,two-nodes-at-once,majority-away'],
  ])('a short run on stage %s, with %s, is clean', async (stage, faults) => {
    const output = await runTorture(0, ...ONE_FAULT, '--stage', stage, '--only', faults);
    expect(output).toMatch(
      /\nfaults: \{"(?:sentinels|cluster|master|slot|node|two|majority) [^,]+":\d/,
    );
    expect(output).toMatch(/\nclean\n$/);
  });

  it.each(['single', 'sentinel', 'cluster'])(
    'on stage %s: sees what breaks the lock on purpose: holders, tokens, a process that lives on',
    async (stage) => {
      const output = await broken(stage, 'release,token,warning,exit', '4');
      expect(output).toMatch(/VIOLATION of exclusion: two holders of/);
      expect(output).toMatch(/VIOLATION of tokens: token of \w+ did not rise/);
      expect(output).toMatch(/VIOLATION of processes: p\d: warning MaxListenersExceededWarning/);
      expect(output).toMatch(/VIOLATION of processes: p\d: lived on .*\bTimeout/);
    },
  );

  // By itself, and with calls for one key alone: of a call for several, nobody knows which it has.
  it('sees a key that nobody has', async () => {
    const output = await broken('single', 'keep', '10', 'acquire');
    expect(output).toMatch(/VIOLATION of waits: b was free for more than/);
  });

  it('sees a rejection that nobody handled', async () => {
    const output = await broken('single', 'crash', '2');
    expect(output).toMatch(/VIOLATION of processes: p\d: unhandledRejection: Error: on purpose/);
    expect(output).toMatch(/VIOLATION of processes: p\d ended with exit code 1/);
  });

  it.each([
    [['--seed', 'x'], "--seed is 'x': give a whole number from 0"],
    [['--without', 'calls'], "--without is 'calls': give one of faults, acquire"],
    [['--leasses', '5'], "Unknown option '--leasses'"],
    [['--transactions', '--stage', 'single'], "Unknown option '--stage'"],
    [['--transactions', '--seed', 'x'], "--seed is 'x': give a whole number from 0"],
    [
      ['--transactions', '--break', 'all'],
      "--break is 'all': give one of unknown, inside, branches, answer, order, audits",
    ],
  ])('refuses %j, and says what is allowed', async (args, message) => {
    const output = await runTorture(1, ...args);
    expect(output).toContain(message);
    expect(output).toContain('npm run torture -- --transactions');
    expect(output).not.toMatch(/^ +at /m); // no stack
  });

  it('tells its options', async () => {
    expect(await runTorture(0, '--help')).toContain('[--stage single|replicated|');
  });
});
