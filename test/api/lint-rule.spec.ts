/** The lint rule of docs/losing-a-lock.md finds what it is for. */
import { describe, expect, it } from '@jest/globals';
import { Linter } from 'eslint';
import { parser } from 'typescript-eslint';
import { runInThisContext } from 'node:vm';
import { readDocument } from './markdown.js';

const { blocks } = readDocument('docs/losing-a-lock.md');
const { code = '' } = blocks.find(({ file }) => file === 'eslint.config.ts') ?? {};
const config = runInThisContext(code.replace('export default', '')) as Linter.Config[];

function messagesFor(line: string): string[] {
  const source = `async function write(locks, lock, held) { ${line} }`;
  const languageOptions = { parser: parser as Linter.Parser };
  return new Linter()
    .verify(source, [...config, { languageOptions }])
    .map(({ message }) => message);
}

describe('the lint rule against ?.', () => {
  it.each([
    'locks.current()?.assertHeld();',
    "this.locks.current('a')?.assertHeld();",
    'lock?.assertHeld();',
    'await lock?.ensureRemaining(2_000);',
    'this.locks?.current().assertHeld();',
    'locks?.assertHeld();',
    'lock.assertHeld?.();',
    '(locks.current() as Lock | undefined)?.assertHeld();',
  ])('refuses %s', (line) => {
    expect(messagesFor(line)).toEqual(['Without a lock, ?. skips the check: locks.assertHeld()']);
  });

  it.each([
    'locks.assertHeld();',
    "this.locks.assertHeld('a');",
    'lock.assertHeld();',
    'locks.current()!.assertHeld();',
    'await lock.ensureRemaining(2_000);',
    'fetch(url, { signal: locks.current()?.signal });',
    'held?.add(lock.assertHeld());',
  ])('accepts %s', (line) => {
    expect(messagesFor(line)).toEqual([]);
  });
});
