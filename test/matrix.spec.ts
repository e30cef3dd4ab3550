import { describe, expect, it } from '@jest/globals';
import { join } from 'node:path';
import { ROOT } from './api/markdown.js';
import { runCommand } from './support/run-command.js';

/** What needs no network. */
describe('npm run matrix', () => {
  it('--list names the cells, one a line, and --only chooses by how they begin', async () => {
    const { code, stdout } = await matrix('--list', '--only', 'nest11,typescript');
    const names = stdout
      .trimEnd()
      .split('\n')
      .map((line) => line.split(' ')[0]);
    expect(code).toBe(0);
    expect(names).toContain('nest11-cjs-jest');
    expect(names).toContain('typescript-5.4');
    expect(names.filter((name) => !/^(nest11|typescript)-/.test(name ?? ''))).toEqual([]);
  });

  it('refuses a cell that it does not have', async () => {
    const { code, stderr } = await matrix('--only', 'nest9');
    expect([code, stderr]).toEqual([2, expect.stringContaining('--only nest9: there is no such')]);
  });
});

function matrix(...args: string[]): ReturnType<typeof runCommand> {
  return runCommand(process.execPath, [join(ROOT, 'scripts/matrix.mjs'), ...args], ROOT);
}
