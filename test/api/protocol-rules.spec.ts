import { describe, expect, it } from '@jest/globals';
import { format, resolveConfig } from 'prettier';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readDocument, ROOT } from './markdown.js';
import { testsByRule, testsIn } from './test-titles.js';

const PAGE = 'test/protocol-rules.md';
/** A rule, and the list of its tests. */
const RULE = /^\*\*([RD]\d+)\*\* ([^]+?)\n\n(?:(?:- .*\n(?: {2}.*\n)*)+)?/gm;

const { text } = readDocument(PAGE);
const rules = [...text.matchAll(RULE)].map(([, number = '']) => number);
const proofs = proofsByRule();

/** For each rule the lines that name its tests, in the order of files and tests. */
function proofsByRule(): Map<string, readonly string[]> {
  const lines = [...testsByRule('RD')].map(([rule, tests]) => {
    const named = tests.map(
      ({ file, titles }) =>
        `- \`${file.replace(/^test\//, '')}\`: ${titles.map(escaped).join(': ')}`,
    );
    return [rule, [...new Set(named)]] as const;
  });
  return new Map(lines);
}

/** A title is no Markdown. */
function escaped(title: string): string {
  return title.replaceAll(/[\\`*_<>[\]]/g, String.raw`\$&`);
}

/** The page with the tests that follow from the specs. */
async function expectedPage(): Promise<string> {
  const made = text.replaceAll(
    RULE,
    (_, number: string, rule: string) =>
      `**${number}** ${rule}\n\n${(proofs.get(number) ?? []).join('\n')}\n\n`,
  );
  const options = await resolveConfig(join(ROOT, PAGE));
  return format(made, { ...options, parser: 'markdown', printWidth: 120, proseWrap: 'always' });
}

describe(PAGE, () => {
  it('has the tests that carry the number of a rule (PROTOCOL_RULES=write lists them)', async () => {
    const expected = await expectedPage();
    if (process.env['PROTOCOL_RULES'] === 'write') writeFileSync(join(ROOT, PAGE), expected);
    else expect(text).toBe(expected);
  });

  it.each(['R', 'D'])('numbers its rules from %s1, without gaps', (letter) => {
    const numbers = rules.filter((rule) => rule.startsWith(letter));
    expect(numbers).toEqual(numbers.map((_, i) => `${letter}${i + 1}`));
    expect(numbers.length).toBeGreaterThan(40);
  });

  it('has a test for each rule, and a rule for each number in a title', () => {
    expect([...proofs.keys()].sort()).toEqual([...rules].sort());
  });
});

describe('titles', () => {
  it('are those of tests that run and must pass', () => {
    const source = `
      test('a', f); it.each([1])('b %i [R1]', f); fault('c', 'd [R2, G3]', f); describe('not e', f);
      it.skip('not f', f); it.failing('not g', f); other('not h'); // test('not i', f)
    `;
    expect(testsIn(source)).toEqual([
      { titles: ['a'], rules: [] },
      { titles: ['b %i'], rules: ['R1'] },
      { titles: ['c', 'd'], rules: ['R2', 'G3'] },
    ]);
  });
});
