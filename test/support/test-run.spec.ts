/** Tests how a jest run ends: its last line, its exit code and its processes. Each test starts a jest process. */
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { isAlive } from 'dev-servers';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { TemporaryProject } from '../api/temporary-project.js';
import { eventually } from './eventually.js';
import { UNGUARDED } from './run-command.js';

const JEST = createRequire(import.meta.url).resolve('jest/bin/jest');
const TOTALS = fileURLToPath(new URL('../../scripts/reporters/totals.mjs', import.meta.url));
const HANGS = fileURLToPath(new URL('../../scripts/reporters/hangs.mjs', import.meta.url));
const ENVIRONMENT = fileURLToPath(new URL('./guarded-environment.mjs', import.meta.url));

let project: TemporaryProject;
beforeEach(() => {
  project = new TemporaryProject();
  project.write('jest.config.json', {
    reporters: ['default', TOTALS],
    testEnvironment: ENVIRONMENT,
    transform: {},
    maxWorkers: 2,
  });
});
afterEach(() => project.remove());

const GREEN = `it('passes', () => {});`;
const SKIPPED = `describe('skipped: no MariaDB', () => describe.skip('what needs one', () => {
  it('works', () => {});
}));`;

describe('the last line on standard output', () => {
  it.each([
    [
      'counts what passed, after why something was skipped',
      [GREEN, SKIPPED],
      'skipped: no MariaDB\n1 skipped\n1 passed, 0 failed\n',
      0,
    ],
    ['counts what failed', [GREEN, `it('fails', () => { throw 0; });`], '1 passed, 1 failed\n', 1],
    [
      'counts a suite that cannot be loaded as a failed test',
      [GREEN, '('],
      '1 passed, 1 failed\n',
      1,
    ],
    [
      'is printed although nothing ran, which is not a success',
      [SKIPPED],
      'skipped: no MariaDB\n1 skipped\n0 passed, 0 failed\n',
      1,
    ],
  ])('%s', async (_, suites, output, exitCode) => {
    for (const [i, suite] of suites.entries()) project.write(`${i}.test.js`, suite);
    const { stdout, code } = await project.node([JEST], UNGUARDED);
    expect([stdout, code]).toEqual([output, exitCode]);
  });
});

describe('a run with a test that hangs', () => {
  const run = (suite: string) => {
    project.write('jest.config.json', {
      reporters: [[HANGS, { tellAfterMs: 2_000, endAfterMs: 10_000 }], TOTALS],
      testEnvironment: ENVIRONMENT,
      transform: {},
      testTimeout: 3_000,
      maxWorkers: 2,
    });
    project.write('hangs.test.js', suite);
    project.write('passes.test.js', GREEN);
    return project.node([JEST], UNGUARDED);
  };

  it('names that test before its file is done, and runs no other test of the file', async () => {
    const { stdout, stderr, code } = await run(
      `it('waits', () => new Promise(() => {})); it('comes after it', () => {});`,
    );
    expect(stderr).toMatch(/^not over after \d s: hangs.test.js: waits$/m);
    expect(stderr).toMatch(/^failed after 3\d\d\d ms: hangs.test.js: waits$/m);
    expect([stdout, code]).toEqual(['1 skipped\n1 passed, 1 failed\n', 1]);
  });

  it('fails if its process stands still, which no time limit of Jest ends', async () => {
    const { stderr, code } = await run(
      `it('blocks', () => {
        require('node:fs').writeFileSync(__filename + '.pid', String(process.pid));
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
      });`,
    );
    expect(stderr).toMatch(/^not over after \d s: hangs.test.js: blocks$/m);
    expect(code).toBe(1);
    await eventually(() => expect(isAlive(pidWrittenBy('hangs'))).toBe(false));
  });
});

describe('workers', () => {
  it.each(['SIGTERM', 'SIGKILL'] as const)(
    'end with a Jest process that was ended by %s',
    async (signal) => {
      const names = ['a', 'b'];
      for (const name of names) project.write(`${name}.test.js`, ENDLESS);
      const jest = spawn(process.execPath, [JEST], {
        cwd: project.folder,
        env: { ...process.env, ...UNGUARDED },
        stdio: 'ignore',
      });
      const workers = await eventually(() => names.map(pidWrittenBy), 30_000);
      expect(workers.filter(isAlive)).toEqual(workers);

      const ended = once(jest, 'exit');
      jest.kill(signal);
      await ended;
      await eventually(() => expect(workers.filter(isAlive)).toEqual([]));
    },
  );
});

function pidWrittenBy(name: string): number {
  const pid = Number(readFileSync(join(project.folder, `${name}.test.js.pid`), 'utf8'));
  expect(pid).toBeGreaterThan(0); // the file exists before its content is written
  return pid;
}

const ENDLESS = `it('waits', async () => {
  require('node:fs').writeFileSync(__filename + '.pid', String(process.pid));
  await new Promise((resolve) => setTimeout(resolve, 120_000));
}, 120_000);`;
