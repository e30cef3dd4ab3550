import { describe, expect, it } from '@jest/globals';
import { readDocument } from './markdown.js';
import { missingTests, namedTests, titlesIn } from './test-titles.js';

const rows = namedTests(readDocument('docs/protocol-rules.md').text);

describe('docs/protocol-rules.md', () => {
  it('numbers its rules from R1, without gaps', () => {
    const numbers = rows.flatMap(({ number }) => (number ? [number] : []));
    expect(numbers).toEqual(numbers.map((_, i) => `R${i + 1}`));
    expect(numbers.length).toBeGreaterThan(40);
  });

  const files = [...new Set(rows.map(({ file }) => file))];
  it.each(files)('names tests that exist: %s', (file) => {
    expect(missingTests(rows, file)).toEqual([]);
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
