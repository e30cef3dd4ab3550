import ts from 'typescript';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './markdown.js';

/** The tests of each rule or guarantee, by its number, with the file that has them. */
export function testsByRule(letters: string): Map<string, { file: string; titles: string[] }[]> {
  const found = new Map<string, { file: string; titles: string[] }[]>();
  for (const file of sources()) {
    for (const { titles, rules } of testsIn(readFileSync(join(ROOT, file), 'utf8'))) {
      for (const rule of rules.filter(([letter = '']) => letters.includes(letter))) {
        found.set(rule, [...(found.get(rule) ?? []), { file, titles: [...titles] }]);
      }
    }
  }
  return found;
}

/** Files with tests: specs, and modules that several specs share. */
function sources(): string[] {
  const tools = readdirSync(join(ROOT, 'tools')).map((tool) => `tools/${tool}/test`);
  return ['test', ...tools]
    .filter((folder) => existsSync(join(ROOT, folder)))
    .flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
        .map((path) => `${folder}/${path.replaceAll('\\', '/')}`)
        .filter((path) => path.endsWith('.ts'))
        .sort(),
    );
}

/** A call of `test`, `it` or `fault`, or of their concurrent kinds. */
export interface WrittenTest {
  /** Its texts as they are written; most have one. */
  readonly titles: readonly string[];
  /**
   * The rules that it proves: the last text ends with the numbers of rules and guarantees, as in `is never early [R7,
   * G3]`.
   */
  readonly rules: readonly string[];
}

const RULES = / \[([RDG]\d+(?:, [RDG]\d+)*)\]$/;

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
