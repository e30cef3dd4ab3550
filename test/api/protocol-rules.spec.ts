import { describe, expect, it } from '@jest/globals';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readDocument, ROOT } from './markdown.js';
import { namedTests, titlesIn } from './test-titles.js';

const rows = namedTests(readDocument('docs/protocol-rules.md').text);

describe('docs/protocol-rules.md', () => {
  it('numbers its rules from R1, without gaps', () => {
    const numbers = rows.flatMap(({ number }) => (number ? [number] : []));
    expect(numbers).toEqual(numbers.map((_, i) => `R${i + 1}`));
    expect(numbers.length).toBeGreaterThan(40);
  });

  const files = [...new Set(rows.map(({ file }) => file))];
  it.each(files)('names tests that exist: %s', (file) => {
    const path = join(ROOT, 'test', file);
    expect(existsSync(path)).toBe(true);
    const titles = titlesIn(readFileSync(path, 'utf8'));
    const named = rows.filter((row) => row.file === file).map(({ test }) => test);
    expect(named.filter((test) => !titles.has(test))).toEqual([]);
  });
});

describe('titles', () => {
  it('are those of tests that run and must pass', () => {
    const source = `
      test('a', f); it.each([1])('b %i', f); fault('c', 'd', f); describe('not e', f);
      it.skip('not f', f); it.failing('not g', f); other('not h'); // test('not i', f)
    `;
    expect([...titlesIn(source)]).toEqual(['a', 'b %i', 'c', 'd']);
  });
});
