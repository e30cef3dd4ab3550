import { describe, expect, it } from '@jest/globals';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { ROOT } from '../../../test/api/markdown.js';
import { afterTest } from '../../../test/support/after-test.js';
import { runCommand } from '../../../test/support/run-command.js';
import { Skipped } from '../generated-app.mjs';
import { findServer } from '../server-programs.mjs';

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

  it('has a cell for each server on which the tests of the store run', async () => {
    const { stdout } = await matrix('--list', '--only', 'servers');
    expect([...stdout.matchAll(/^servers-(\S+)/gm)].map(([, server]) => server)).toEqual([
      'redis-7',
      'redis-8',
      'valkey-8',
    ]);
  });
});

describe('a server for the matrix', () => {
  it('is the one on PATH that has the version', () => {
    const { older, newer } = programsOnPath();
    expect(findServer(wanted(7), '')).toBe(older);
    expect(findServer(wanted(8), '')).toBe(newer);
  });

  it('is skipped, never replaced by another one, if it cannot be had', () => {
    programsOnPath();
    const find = (): unknown => findServer(wanted(9), '');
    expect(find).toThrow(Skipped);
    expect(find).toThrow('there is no redis-server 9 on PATH, and no archive of Debian');
  });
});

function wanted(major: number) {
  return { program: 'redis-server', major, suite: 'none' };
}

/** Until the end of the test, PATH has these two, and no apt-get. */
function programsOnPath() {
  const folder = mkdtempSync(join(tmpdir(), 'servers-on-path-'));
  const write = (version: string): string => {
    const program = join(folder, version, 'redis-server');
    mkdirSync(join(folder, version));
    writeFileSync(program, `#!/bin/sh\necho 'Redis server v=${version} sha=0'\n`);
    chmodSync(program, 0o755);
    return program;
  };
  const [older, newer] = [write('7.0.15'), write('8.0.2')];
  const path = process.env['PATH'];
  process.env['PATH'] = ['7.0.15', '8.0.2'].map((name) => join(folder, name)).join(delimiter);
  afterTest(() => {
    process.env['PATH'] = path;
    rmSync(folder, { recursive: true });
  });
  return { older, newer };
}

function matrix(...args: string[]): ReturnType<typeof runCommand> {
  return runCommand(process.execPath, [join(ROOT, 'tools/matrix/matrix.mjs'), ...args], ROOT);
}
