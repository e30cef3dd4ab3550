import { describe, expect, it } from '@jest/globals';
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { entryPoints, LIBRARY } from './entry-points.js';
import { publicSurface } from './public-surface.js';

/**
 * The public surface as it was reviewed, one file per entry point. After a change of a name or a signature, regenerate
 * the files and have the diff reviewed: `UPDATE_PUBLIC_API=1 npm run test:tools -- test/api/public-api`
 */
const REVIEWED = fileURLToPath(new URL('public-api/', import.meta.url));

const runNode = (...args: string[]) =>
  promisify(execFile)(process.execPath, args, { env: { PATH: process.env['PATH'] } });

function fileFor(specifier: string): string {
  return `${specifier.replaceAll('/', '.')}.txt`;
}

describe.each(entryPoints())('$specifier', ({ specifier, import: { types } }) => {
  const surface = publicSurface(join(LIBRARY, types));

  it('has the public surface that was reviewed', () => {
    const file = join(REVIEWED, fileFor(specifier));
    if (process.env['UPDATE_PUBLIC_API'] === '1') writeFileSync(file, surface.text);
    expect(surface.text).toBe(existsSync(file) ? readFileSync(file, 'utf8') : '');
  });

  // In Node itself: jest cannot load what nestjs-cls requires as an ES module.
  it('has the same names at run time', async () => {
    const script = `console.log(Object.keys(await import('${specifier}')).sort().join())`;
    const { stdout } = await runNode('--input-type=module', '--eval', script);
    expect(stdout.trim().split(',')).toEqual(surface.values);
  });
});

it('every reviewed surface belongs to an entry point', () => {
  const files = entryPoints().map(({ specifier }) => fileFor(specifier));
  expect(readdirSync(REVIEWED).sort()).toEqual(files.sort());
});
