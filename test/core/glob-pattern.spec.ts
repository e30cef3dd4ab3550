import { expect, it } from '@jest/globals';
import { globPattern } from '../../libs/nestjs-locked/src/core/runtime/glob-pattern.js';

it('takes no longer than the text times the pattern, however many asterisks there are', () => {
  const matches = globPattern('*a*a*a*a*a*a*b');
  const from = performance.now();
  for (let i = 0; i < 100; i++) expect(matches('a'.repeat(512))).toBe(false);
  expect(performance.now() - from).toBeLessThan(2_000); // by going back, days
  expect(matches('a'.repeat(512) + 'b')).toBe(true);
});

it.each([
  ['*', ''],
  ['**', 'a'],
  ['*a*', 'a'],
  ['a*a', 'aa'],
  ['*ab*ab*', 'aabab'],
  ['*ab*b', 'abab'],
  ['*1*2*3', '1112223'],
  ['?*?', 'ab'],
])('matches %s with %s', (pattern, text) => {
  expect(globPattern(pattern)(text)).toBe(true);
});

it.each([
  ['a*a', 'a'],
  ['*ab*ab*', 'abb'],
  ['*ab*b', 'ab'],
  ['*a?*', 'ba'],
  ['?*?', 'a'],
])('does not match %s with %s', (pattern, text) => {
  expect(globPattern(pattern)(text)).toBe(false);
});
