import ts from 'typescript';
import type { Source } from '../source.js';

/**
 * Whether nothing can release what `acquire` gives, so that the lock ends with its duration: a job that is to run once
 * a minute locks its key for a minute, and leaves it.
 */
export function isNeverReleased(source: Source, acquire: ts.CallExpression): boolean {
  const value = awaited(acquire);
  const { parent } = value;
  if (ts.isExpressionStatement(parent) || ts.isVoidExpression(parent)) return true;
  const name = nameOf(value);
  return name === undefined ? isTest(value) : usesOf(source, name).every(isTest);
}

/** The expression that has the lock: around `await`, parentheses and `.catch(…)`. */
function awaited(node: ts.Expression): ts.Expression {
  const { parent } = node;
  if (ts.isAwaitExpression(parent) || ts.isParenthesizedExpression(parent)) return awaited(parent);
  const isCaught =
    ts.isPropertyAccessExpression(parent) &&
    parent.name.text === 'catch' &&
    ts.isCallExpression(parent.parent);
  return isCaught ? awaited(parent.parent) : node;
}

/** The variable that the lock is put in. */
function nameOf(value: ts.Expression): ts.Identifier | undefined {
  const { parent } = value;
  const target = ts.isVariableDeclaration(parent)
    ? parent.name
    : isAssignment(parent)
      ? parent.left
      : undefined;
  return target !== undefined && ts.isIdentifier(target) ? target : undefined;
}

function usesOf({ checker, file }: Source, name: ts.Identifier): ts.Identifier[] {
  const symbol = checker.getSymbolAtLocation(name);
  const uses: ts.Identifier[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isIdentifier(node) && node.text === name.text && isUse(checker, node, symbol)) {
      uses.push(node);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return uses;
}

function isUse(
  checker: ts.TypeChecker,
  node: ts.Identifier,
  symbol: ts.Symbol | undefined,
): boolean {
  const { parent } = node;
  if (ts.isVariableDeclaration(parent) && parent.name === node) return false;
  const found = ts.isShorthandPropertyAssignment(parent)
    ? checker.getShorthandAssignmentValueSymbol(parent)
    : checker.getSymbolAtLocation(node);
  return found === symbol && !(isAssignment(parent) && parent.left === node);
}

/** Whether only the presence of a lock matters here. */
function isTest(node: ts.Expression): boolean {
  const { parent } = node;
  if (ts.isIfStatement(parent)) return true;
  if (ts.isPrefixUnaryExpression(parent)) return true;
  return ts.isBinaryExpression(parent) && COMPARISONS.has(parent.operatorToken.kind);
}

const COMPARISONS: ReadonlySet<ts.SyntaxKind> = new Set([
  ts.SyntaxKind.EqualsEqualsToken,
  ts.SyntaxKind.EqualsEqualsEqualsToken,
  ts.SyntaxKind.ExclamationEqualsToken,
  ts.SyntaxKind.ExclamationEqualsEqualsToken,
]);

function isAssignment(node: ts.Node): node is ts.BinaryExpression {
  return ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.EqualsToken;
}
