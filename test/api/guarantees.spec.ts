/** A promise of docs/guarantees.md has a number, and tests whose titles end with it. */
import { describe, expect, it } from '@jest/globals';
import { readDocument } from './markdown.js';
import { testsByRule } from './test-titles.js';

describe('docs/guarantees.md', () => {
  const numbers = readDocument('docs/guarantees.md').text.match(/\bG\d+\b/g) ?? [];

  it('has a test for each promise, and a promise for each number in a title', () => {
    expect(numbers).not.toEqual([]);
    const proved = [...testsByRule('G').keys()];
    expect(proved.sort()).toEqual([...new Set(numbers)].sort());
  });
});
