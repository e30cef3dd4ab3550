import { expect, it } from '@jest/globals';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterTest } from './support/after-test.js';
import { runCommand } from './support/run-command.js';

const KEPT = [
  'libs/a/src/index.ts',
  'libs/a/src/dist.ts',
  'libs/a/package.json',
  'apps/c/node_modules/x/dist/index.js',
  'node_modules/y/dist/index.js',
  'apps/README.md',
];
const REMOVED = [
  'libs/a/dist/index.js',
  'libs/a/dist/.tsbuildinfo',
  'libs/a/dist/cjs/index.js',
  'libs/b/tsconfig.tsbuildinfo',
  'apps/c/dist/renamed.js',
];

it('npm run clean removes what was built in every package, and nothing else', async () => {
  const root = mkdtempSync(join(tmpdir(), 'clean-'));
  afterTest(() => rmSync(root, { recursive: true }));
  for (const path of [...KEPT, ...REMOVED]) {
    mkdirSync(join(root, dirname(path)), { recursive: true });
    writeFileSync(join(root, path), '');
  }
  const script = join(root, 'scripts/clean.mjs');
  cpSync('scripts/clean.mjs', script, { recursive: true });

  await runCommand(process.execPath, [script], tmpdir());
  await runCommand(process.execPath, [script], tmpdir()); // nothing is there any more

  expect(KEPT.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  expect(REMOVED.filter((path) => existsSync(join(root, path)))).toEqual([]);
  expect(existsSync(join(root, 'libs/a/dist'))).toBe(false);
});
