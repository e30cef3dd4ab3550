import { expect, it } from '@jest/globals';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { afterTest } from '../support/after-test.js';
import { runCommand, UNGUARDED } from '../support/run-command.js';

const KEPT = [
  'libs/a/src/index.ts',
  'libs/a/src/dist.ts',
  'libs/a/package.json',
  'apps/c/node_modules/x/dist/index.js',
  'tools/d/node_modules/x/dist/index.js',
  'node_modules/y/dist/index.js',
  'apps/README.md',
];
const REMOVED = [
  'libs/a/dist/index.js',
  'libs/a/dist/.tsbuildinfo',
  'libs/a/dist/cjs/index.js',
  'libs/b/tsconfig.tsbuildinfo',
  'apps/c/dist/renamed.js',
  'tools/d/dist/main.js',
];

it('npm run clean removes the build output of every package, and nothing else', async () => {
  const root = mkdtempSync(join(tmpdir(), 'clean-'));
  afterTest(() => rmSync(root, { recursive: true }));
  for (const path of [...KEPT, ...REMOVED]) {
    mkdirSync(join(root, dirname(path)), { recursive: true });
    writeFileSync(join(root, path), '');
  }
  cpSync('package.json', join(root, 'package.json'));
  const PATH = [resolve('node_modules/.bin'), process.env['PATH']].join(delimiter);

  for (const time of ['first', 'second, when nothing is there any more']) {
    const { code, stderr } = await runCommand('npm', ['run', 'clean'], root, {
      ...UNGUARDED,
      PATH,
    });
    expect({ time, code, stderr }).toMatchObject({ time, code: 0 });
  }

  expect(KEPT.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  expect(REMOVED.filter((path) => existsSync(join(root, path)))).toEqual([]);
  expect(existsSync(join(root, 'libs/a/dist'))).toBe(false);
});
