import { describe, expect, it } from '@jest/globals';
import ts from 'typescript';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readDocument, ROOT } from './markdown.js';

interface Row {
  /** A rule has a number, a defect has none. */
  readonly number: string | undefined;
  readonly file: string;
  readonly test: string;
}

const rows = readRows(readDocument('docs/protocol-rules.md').text);

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

/** The last two cells of each row are file and test; the first of four is the number of a rule. */
function readRows(text: string): Row[] {
  return [...text.matchAll(/^\|(.*)\|$/gm)].flatMap(([, line = '']) => {
    const cells = line.split('|').map((cell) => cell.trim());
    const [test = '', file = ''] = cells.toReversed();
    if (!file.startsWith('`')) return []; // the head of a table
    const number = cells.length === 4 && cells[0] !== '' ? cells[0] : undefined;
    return [{ number, file: file.slice(1, -1), test }];
  });
}

/** The texts by which the calls of `test`, `it` and `fault` name tests, as they are written. */
function titlesIn(source: string): Set<string> {
  const titles = new Set<string>();
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && isTest(node.expression)) {
      for (const argument of node.arguments) {
        if (ts.isStringLiteralLike(argument)) titles.add(argument.text);
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile('test.ts', source, ts.ScriptTarget.Latest));
  return titles;
}

/** `test`, `it` and `fault`, or `each` of the first two with its table. */
function isTest(callee: ts.Expression): boolean {
  if (ts.isIdentifier(callee)) return ['test', 'it', 'fault'].includes(callee.text);
  return (
    ts.isCallExpression(callee) &&
    ts.isPropertyAccessExpression(callee.expression) &&
    callee.expression.name.text === 'each' &&
    isTest(callee.expression.expression)
  );
}
