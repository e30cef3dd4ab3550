import ts from 'typescript';
import { oldNameAt } from '../old-names.js';
import type { Project } from '../project.js';
import {
  constantAt,
  constantBoolean,
  constantNumber,
  constantText,
  propertiesOf,
} from '../syntax.js';

/** What the options of `MurLockModule` say about every lock; undefined is what cannot be seen. */
export interface MurlockSettings {
  /** Whether keys begin with the class and the method. */
  readonly keyPrefix: 'default' | 'custom' | undefined;
  readonly maxAttempts: number | undefined;
  readonly blocking: boolean | undefined;
}

/** Reads the options of the application. Several modules with different ones leave it unknown. */
export function readSettings(
  { checker, files }: Project,
  given: 'default' | 'custom' | undefined,
): MurlockSettings {
  const found: MurlockSettings[] = [];
  const visit = (node: ts.Node): void => {
    const options = ts.isCallExpression(node) ? moduleOptions(checker, node) : undefined;
    if (options !== undefined) found.push(settingsIn(checker, options.values));
    ts.forEachChild(node, visit);
  };
  for (const file of files) visit(file);
  return {
    keyPrefix: given ?? same(found.map(({ keyPrefix }) => keyPrefix)),
    maxAttempts: same(found.map(({ maxAttempts }) => maxAttempts)),
    blocking: same(found.map(({ blocking }) => blocking)),
  };
}

/** A call of `MurLockModule.forRoot` or `forRootAsync`. */
export interface ModuleCall {
  /** The object with the options, and its values by their names; undefined if they are made elsewhere. */
  readonly object: ts.ObjectLiteralExpression | undefined;
  readonly values: ReadonlyMap<string, ts.Expression> | undefined;
}

export function moduleOptions(
  checker: ts.TypeChecker,
  { expression, arguments: [argument] }: ts.CallExpression,
): ModuleCall | undefined {
  if (!ts.isPropertyAccessExpression(expression) || argument === undefined) return undefined;
  if (oldNameAt(checker, expression.expression)?.name !== 'MurLockModule') return undefined;
  const given =
    expression.name.text === 'forRoot' ? argument : propertiesOf(argument)?.get('useFactory');
  const object = given === undefined ? undefined : objectOf(checker, given);
  return { object, values: object === undefined ? undefined : propertiesOf(object) };
}

/** The object that an expression is, that a constant is, or that a function returns in its only `return`. */
function objectOf(checker: ts.TypeChecker, node: ts.Node): ts.ObjectLiteralExpression | undefined {
  if (ts.isObjectLiteralExpression(node)) return node;
  if (
    ts.isParenthesizedExpression(node) ||
    ts.isSatisfiesExpression(node) ||
    ts.isAsExpression(node)
  ) {
    return objectOf(checker, node.expression);
  }
  if (ts.isIdentifier(node)) {
    const made = constantAt(checker, node);
    return made === undefined ? undefined : objectOf(checker, made);
  }
  if (!ts.isArrowFunction(node) && !ts.isFunctionExpression(node)) return undefined;
  if (!ts.isBlock(node.body)) return objectOf(checker, node.body);
  const returns: ts.ReturnStatement[] = [];
  const visit = (inner: ts.Node): void => {
    if (ts.isFunctionLike(inner)) return;
    if (ts.isReturnStatement(inner)) returns.push(inner);
    ts.forEachChild(inner, visit);
  };
  ts.forEachChild(node.body, visit);
  const [only] = returns;
  return returns.length === 1 && only?.expression !== undefined
    ? objectOf(checker, only.expression)
    : undefined;
}

function settingsIn(checker: ts.TypeChecker, values: ModuleCall['values']): MurlockSettings {
  if (values === undefined) {
    return { keyPrefix: undefined, maxAttempts: undefined, blocking: undefined };
  }
  const [prefix, attempts, blocking] = ['lockKeyPrefix', 'maxAttempts', 'blocking'].map((name) =>
    values.get(name),
  );
  const keyPrefix = prefix === undefined ? 'default' : constantText(checker, prefix);
  return {
    keyPrefix: keyPrefix === 'default' || keyPrefix === 'custom' ? keyPrefix : undefined,
    maxAttempts: attempts === undefined ? undefined : constantNumber(checker, attempts),
    blocking: blocking === undefined ? false : constantBoolean(blocking),
  };
}

function same<T>(values: readonly T[]): T | undefined {
  return values.every((value) => value === values[0]) ? values[0] : undefined;
}
