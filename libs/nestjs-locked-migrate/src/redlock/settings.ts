import ts from 'typescript';
import { relative } from 'node:path';
import { oldNameAt, oldTypeOf } from '../old-names.js';
import type { Project } from '../project.js';
import { constantNumber, propertiesOf } from '../syntax.js';

/** How long redlock asks for a lock; undefined is what cannot be seen. */
interface Retries {
  readonly retryCount: number | undefined;
  readonly retryDelay: number | undefined;
}

/** What the whole application does with redlock. */
export interface RedlockUse {
  /** Why no lock can be replaced: the locks are not on one server, or nobody can see whether they are. */
  readonly whyNone: string | undefined;
  /** Why locks that are acquired and released by hand stay: they may be passed from file to file. */
  readonly whyNoHandles: string | undefined;
  /** The settings of `new Redlock`; undefined if there are several. */
  readonly retries: Retries | undefined;
}

/** The defaults of redlock 5. */
const DEFAULTS: Retries = { retryCount: 10, retryDelay: 200 };

/** @param whyNot why a lock cannot be acquired at this place with a `LockService` */
export function readUse(
  { folder, checker, files }: Project,
  whyNot: (call: ts.CallExpression) => string | undefined,
): RedlockUse {
  const made: ts.NewExpression[] = [];
  const obstacles: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isNewExpression(node) && oldNameAt(checker, node.expression)?.name === 'Redlock') {
      made.push(node);
    }
    const obstacle = obstacleAt(checker, node, whyNot);
    if (obstacle !== undefined) obstacles.push(`${obstacle} (${placeOf(node, folder)})`);
    ts.forEachChild(node, visit);
  };
  for (const file of files) visit(file);
  const [obstacle] = obstacles;
  return {
    whyNone: whyNone(made, folder),
    whyNoHandles:
      obstacle === undefined
        ? undefined
        : `locks may be passed on, and one of them has to stay: ${obstacle}`,
    retries: retriesOf(checker, made),
  };
}

function whyNone(made: readonly ts.NewExpression[], folder: string): string | undefined {
  if (made.length === 0) {
    return 'nobody can see how many servers it asks, because there is no new Redlock([…]) in this project';
  }
  for (const node of made) {
    const [clients] = node.arguments ?? [];
    if (
      clients === undefined ||
      !ts.isArrayLiteralExpression(clients) ||
      clients.elements.some(ts.isSpreadElement)
    ) {
      return `nobody can see how many servers it asks: ${placeOf(node, folder)} does not list them`;
    }
    if (clients.elements.length !== 1) {
      return `it asks ${clients.elements.length} servers, and these locks are on one: stay with redlock if you need a majority (${placeOf(node, folder)})`;
    }
  }
  return undefined;
}

/** What a lock that is acquired by hand is used for and has no counterpart. */
function obstacleAt(
  checker: ts.TypeChecker,
  node: ts.Node,
  whyNot: (call: ts.CallExpression) => string | undefined,
): string | undefined {
  if (ts.isIdentifier(node) && !ts.isImportSpecifier(node.parent)) {
    const name = oldNameAt(checker, node)?.name;
    if (name === 'ExecutionResult') return 'uses ExecutionResult';
  }
  if (!ts.isPropertyAccessExpression(node)) return undefined;
  const owner = oldTypeOf(checker, node.expression);
  if (owner?.library !== 'redlock') return undefined;
  const member = node.name.text;
  if (owner.name === 'Lock') {
    if (['release', 'resources'].includes(member)) return undefined;
    if (member === 'extend') return extensionOf(node) ? undefined : 'uses the result of extend()';
    return `uses .${member}`;
  }
  if (owner.name !== 'Redlock' || !ts.isCallExpression(node.parent)) return undefined;
  if (member === 'acquire') return whyNot(node.parent);
  if (member === 'extend') return extensionOf(node) ? undefined : 'uses the result of extend()';
  return undefined;
}

/** The statement `await lock.extend(5000)` or `lock = await lock.extend(5000)` around the called name. */
export function extensionOf(callee: ts.PropertyAccessExpression): ts.Expression | undefined {
  const call = callee.parent;
  if (!ts.isCallExpression(call) || !ts.isAwaitExpression(call.parent)) return undefined;
  const awaited = call.parent;
  if (ts.isExpressionStatement(awaited.parent)) return awaited;
  const assignment = awaited.parent;
  const isAssigned =
    ts.isBinaryExpression(assignment) &&
    assignment.operatorToken.kind === ts.SyntaxKind.EqualsToken &&
    ts.isExpressionStatement(assignment.parent) &&
    assignment.left.getText() === extended(callee)?.getText();
  return isAssigned ? assignment : undefined;
}

/** The lock that is extended: of `lock.extend(ms)`, or of `redlock.extend(lock, ms)`. */
export function extended(callee: ts.PropertyAccessExpression): ts.Expression | undefined {
  const call = callee.parent;
  if (!ts.isCallExpression(call)) return undefined;
  return call.arguments.length > 1 ? call.arguments[0] : callee.expression;
}

function retriesOf(
  checker: ts.TypeChecker,
  made: readonly ts.NewExpression[],
): Retries | undefined {
  const all = made.map(({ arguments: given }) => read(checker, given?.[1], DEFAULTS));
  const [first] = all;
  return all.every((one) => JSON.stringify(one) === JSON.stringify(first)) ? first : undefined;
}

function read(checker: ts.TypeChecker, node: ts.Expression | undefined, base: Retries): Retries {
  if (node === undefined) return base;
  const settings = propertiesOf(node);
  const number = (name: keyof Retries): number | undefined => {
    const value = settings?.get(name);
    if (settings === undefined) return undefined;
    return value === undefined ? base[name] : constantNumber(checker, value);
  };
  return { retryCount: number('retryCount'), retryDelay: number('retryDelay') };
}

/** `waitMs` for a call; undefined if it cannot be seen, and '' if the default of ours is near enough. */
export function waitOf(
  checker: ts.TypeChecker,
  { retries }: RedlockUse,
  settings: ts.Expression | undefined,
): string | undefined {
  const base = retries ?? { retryCount: undefined, retryDelay: undefined };
  const { retryCount, retryDelay } = read(checker, settings, base);
  if (retryCount === 0) return '0';
  if (retryCount === -1) return 'Infinity';
  if (retryCount === undefined || retryDelay === undefined) return undefined;
  return String(retryCount * retryDelay);
}

function placeOf(node: ts.Node, folder: string): string {
  const file = node.getSourceFile();
  const { line } = file.getLineAndCharacterOfPosition(node.getStart(file));
  return `${relative(folder, file.fileName)}:${line + 1}`;
}
