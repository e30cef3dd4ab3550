/** Each promise of docs/guarantees.md has a row in test/guarantees.md: the test that fails when it is broken. */
import { describe, expect, it } from '@jest/globals';
import { readDocument } from './markdown.js';
import { missingTests, namedTests } from './test-titles.js';

const { text: promises } = readDocument('docs/guarantees.md');
const rows = namedTests(readDocument('test/guarantees.md').text);

describe('docs/guarantees.md', () => {
  it('numbers its promises from G1, and proves each of them', () => {
    const promised = new Set(promises.match(/\bG\d+\b/g));
    const proved = rows.flatMap(({ number }) => (number ? [number] : []));
    expect(proved).toEqual(proved.map((_, i) => `G${i + 1}`));
    expect([...promised].sort(byNumber)).toEqual(proved);
    expect(proved.length).toBeGreaterThan(30);
  });

  it('promises nothing in a table without a number', () => {
    const tables = promises.match(/(?:^\|.*\n)+/gm) ?? [];
    const numbered = tables.filter((table) => table.includes('| can two hold the same lock?'));
    expect(numbered).toHaveLength(5);
    for (const line of numbered.flatMap((table) => table.trimEnd().split('\n').slice(2))) {
      expect(line).toMatch(/^\| G\d+ /);
    }
  });

  const files = [...new Set(rows.map(({ file }) => file))];
  it.each(files)('names tests that exist: %s', (file) => {
    expect(missingTests(rows, file)).toEqual([]);
  });
});

function byNumber(one: string, other: string): number {
  return Number(one.slice(1)) - Number(other.slice(1));
}
