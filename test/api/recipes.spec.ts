import { describe, expect, it } from '@jest/globals';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readDocument, ROOT } from './markdown.js';

const RECIPES = join(ROOT, 'test/transactions/recipes');

describe('the recipes of docs/orms.md', () => {
  const blocks = readDocument('docs/orms.md').blocks.filter(({ file }) => file !== undefined);

  it('are exactly those that the tests run', () => {
    expect(blocks.map(({ file }) => file).sort()).toEqual(readdirSync(RECIPES).sort());
  });

  it.each(blocks)('$file is the same in both places', ({ file, code }) => {
    expect(code).toBe(readFileSync(join(RECIPES, file as string), 'utf8'));
  });
});
