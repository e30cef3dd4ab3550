import { describe, expect, it } from '@jest/globals';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { entryPoints, LIBRARY } from './entry-points.js';
import { publicSurface } from './public-surface.js';

/**
 * The public surface as it was reviewed, one file per entry point. Whoever changes a name or a signature writes the
 * files anew and has the diff reviewed: `UPDATE_PUBLIC_API=1 npm run test:jest -- test/api/public-api`
 */
const REVIEWED = fileURLToPath(new URL('public-api/', import.meta.url));

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

  it('has the same names at run time', async () => {
    const namespace = (await import(specifier)) as object;
    expect(Object.keys(namespace).sort()).toEqual(surface.values);
  });
});

it('every reviewed surface belongs to an entry point', () => {
  const files = entryPoints().map(({ specifier }) => fileFor(specifier));
  expect(readdirSync(REVIEWED).sort()).toEqual(files.sort());
});
