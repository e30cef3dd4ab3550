/** `--stage quorum`: its histories repeat, find nothing, and find what is broken on purpose. */
import { describe, expect, it } from '@jest/globals';
import { fileURLToPath } from 'node:url';
import { runCommand, UNGUARDED } from '../../../test/support/run-command.js';
import { QUORUM_BREAK_NAMES } from '../src/server/quorum-breaks.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

async function simulate(...args: string[]): Promise<{ code: number; output: string }> {
  const program = ['tools/simulate/dist/main.js', '--stage', 'quorum', ...args];
  const { code, stdout, stderr } = await runCommand(process.execPath, program, ROOT, UNGUARDED);
  return { code, output: stdout + stderr };
}

describe('npm run simulate -- --stage quorum', () => {
  it('plays the same history for the same seed, byte by byte, and another one for another', async () => {
    const [first, second, other] = await Promise.all(
      ['7', '7', '8'].map((seed) => simulate('--seed', seed, '--print')),
    );
    expect(first?.output).toContain('"type":"node away"');
    expect(first?.output).toContain('"type":"entered"');
    expect(second).toEqual(first);
    expect(other?.output).not.toBe(first?.output);
  });

  it('finds nothing in the histories of the library', async () => {
    const { code, output } = await simulate('--histories', '4', '--whole');
    expect(output).toMatch(/^4 histories from seed 1 on: nothing found/);
    expect(code).toBe(0);
  });

  /** From which seed on it is noticed soon, and by which rule. */
  const found: Readonly<Record<(typeof QUORUM_BREAK_NAMES)[number], readonly [string, string]>> = {
    'too few votes': ['1', 'two hold one key|fences rise'],
    'young nodes vote': ['146', 'two hold one key|fences rise'],
    'numbers by the clock': ['5', 'fences rise'],
    'used numbers are given back': ['2', 'fences rise'],
  };
  it.each(QUORUM_BREAK_NAMES)('finds out when nodes are made to do this: %s', async (name) => {
    const [seed, rule] = found[name];
    const args = ['--break', name, '--seed', seed, '--histories', '10', '--threads', '1'];
    const { code, output } = await simulate(...args, '--whole');
    expect(output).toMatch(new RegExp(`^seed \\d+: (?:${rule}): `));
    expect(output).toContain('"type":"entered"'); // the history that shows it
    expect(code).toBe(1);
  });

  it.each([
    ['--break', 'repeat fences', "--break is 'repeat fences': give one of too few votes"],
    ['--judge', 'spec', "--judge is 'spec': the specification has no quorum"],
  ])('refuses %s %s', async (option, value, message) => {
    const { code, output } = await simulate(option, value);
    expect(output).toContain(message);
    expect(code).toBe(2);
  });
});
