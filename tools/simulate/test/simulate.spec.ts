/** The program as users start it: its histories repeat, find nothing, and find what is broken on purpose. */
import { describe, expect, it } from '@jest/globals';
import { fileURLToPath } from 'node:url';
import { runCommand, UNGUARDED } from '../../../test/support/run-command.js';
import { BREAK_NAMES } from '../src/server/breaks.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

async function simulate(...args: string[]): Promise<{ code: number; output: string }> {
  const program = ['tools/simulate/dist/main.js', ...args];
  const { code, stdout, stderr } = await runCommand(process.execPath, program, ROOT, UNGUARDED);
  return { code, output: stdout + stderr };
}

describe('npm run simulate', () => {
  it('plays the same history for the same seed, byte by byte, and another one for another', async () => {
    // With faults of most kinds.
    const [first, second, other] = await Promise.all(
      ['24', '24', '25'].map((seed) => simulate('--seed', seed, '--print')),
    );
    expect(first?.output.split('\n').length).toBeGreaterThan(50);
    expect(second).toEqual(first);
    expect(other?.output).not.toBe(first?.output);
  });

  it('finds nothing in the histories of the library', async () => {
    const { code, output } = await simulate('--histories', '60');
    expect(output).toMatch(/^60 histories from seed 1 on: nothing found/);
    expect(code).toBe(0);
  });

  /** By what was done and believed; which rule the specification names first depends on who comes when. */
  const found: Readonly<Record<(typeof BREAK_NAMES)[number], string>> = {
    'grant to everybody': 'two hold one key|too many hold one key|two have one slot',
    'repeat fences': 'fences rise',
    'forget who waits': 'a free key is served|no permit is idle|who waits longer comes first',
    'leases never end': 'a free key is served|no permit is idle',
    'leases end early':
      'two hold one key|too many hold one key|a key is kept|no call fails without a reason',
  };
  it.each(BREAK_NAMES)('finds out when the server is made to: %s', async (name) => {
    const judges = ['check-history', 'spec'] as const;
    for (const judge of judges) {
      const options = ['--break', name, '--judge', judge, '--histories', '60', '--threads', '1'];
      const { code, output } = await simulate(...options);
      const rule = judge === 'spec' ? '.+' : found[name];
      expect(output).toMatch(new RegExp(`^seed \\d+: (?:${rule}): `));
      expect(output).toContain('"type":"entered"'); // the history that shows it
      expect(code).toBe(1);
    }
  });

  it.each([
    ['--seed', 'x', "--seed is 'x': give a whole number from 0"],
    ['--threads', '0', "--threads is '0': give a whole number from 1"],
    ['--break', 'x', "--break is 'x': give one of grant to everybody"],
  ])('refuses %s %s', async (option, value, message) => {
    const { code, output } = await simulate(option, value);
    expect(output).toContain(message);
    expect(code).toBe(2);
  });
});
