import ts from 'typescript';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './markdown.js';

/** A row of a table that names a test. */
export interface NamedTest {
  /** Of the promise that it proves, as G12. */
  readonly number: string | undefined;
  readonly file: string;
  readonly test: string;
}

/** The last two cells of each row are file and test; the first of the others is a number, if it is not empty. */
export function namedTests(text: string): NamedTest[] {
  return [...text.matchAll(/^\|(.*)\|$/gm)].flatMap(([, line = '']) => {
    const cells = line.split('|').map((cell) => cell.trim());
    const [test = '', file = ''] = cells.toReversed();
    if (!file.startsWith('`')) return []; // the head of a table, or another table
    const number = /^[A-Z]\d+$/.exec(cells[0] ?? '')?.[0];
    return [{ number, file: file.slice(1, -1), test }];
  });
}

/** The named tests that are not in their file; undefined if there is no such file. @param file below `test/` */
export function missingTests(rows: readonly NamedTest[], file: string): string[] | undefined {
  const path = join(ROOT, 'test', file);
  if (!existsSync(path)) return undefined;
  const titles = new Set(testsIn(readFileSync(path, 'utf8')).flatMap((test) => test.titles));
  const named = rows.filter((row) => row.file === file).map(({ test }) => test);
  return named.filter((test) => !titles.has(test));
}

/** A call of `test`, `it` or `fault`, or of their concurrent kinds. */
export interface WrittenTest {
  /** Its texts as they are written; most have one. */
  readonly titles: readonly string[];
  /** The rules that it proves: the last text ends with their numbers, as in `never fires early [R7, D3]`. */
  readonly rules: readonly string[];
}

const RULES = / \[((?:[RD]\d+)(?:, [RD]\d+)*)\]$/;

/** The tests of a spec that run and must pass, in their order. */
export function testsIn(source: string): WrittenTest[] {
  const tests: WrittenTest[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && isTest(node.expression)) {
      const texts = node.arguments.filter((argument) => ts.isStringLiteralLike(argument));
      const [, rules] = RULES.exec(texts.at(-1)?.text ?? '') ?? [];
      tests.push({
        titles: texts.map(({ text }) => text.replace(RULES, '')),
        rules: rules?.split(', ') ?? [],
      });
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile('test.ts', source, ts.ScriptTarget.Latest));
  return tests;
}

const NAMES = ['test', 'it', 'fault', 'concurrentIt', 'concurrentFault'];

/** One of the names, or `each` of it with its table. */
function isTest(callee: ts.Expression): boolean {
  if (ts.isIdentifier(callee)) return NAMES.includes(callee.text);
  return (
    ts.isCallExpression(callee) &&
    ts.isPropertyAccessExpression(callee.expression) &&
    callee.expression.name.text === 'each' &&
    isTest(callee.expression.expression)
  );
}
