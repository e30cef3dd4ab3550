import ts from 'typescript';
import type { Source } from '../source.js';

/** Why the routine of `using` cannot be the work of `withLock`; undefined if it can. */
export function workProblem(source: Source, work: ts.Expression): string | undefined {
  if (!isInline(work)) {
    const isName = ts.isIdentifier(work) || ts.isPropertyAccessExpression(work);
    return isName
      ? undefined
      : 'its routine is not written here; pass it as (lock) => …, with lock.signal';
  }
  const [signal, context] = work.parameters;
  if (context !== undefined)
    return 'its routine takes a second parameter; lock has what you need of it';
  if (signal !== undefined && !ts.isIdentifier(signal.name)) {
    return 'its routine takes the signal apart; use lock.signal';
  }
  return undefined;
}

/** Gives the routine the lock in the place of the signal. */
export function convertWork(source: Source, work: ts.Expression): void {
  if (!isInline(work)) {
    const [signature] = source.checker.getTypeAtLocation(work).getCallSignatures();
    // It takes no signal, or nobody knows.
    if (signature?.parameters.length === 0) return;
    source.replace(work, `(lock) => ${source.textOf(work)}(lock.signal)`);
    return;
  }
  const [signal] = work.parameters;
  if (signal === undefined) return;
  const uses = usesOf(source, signal, work);
  const name = uses.length === 0 ? '' : freeName(work);
  replaceParameter(source, work, signal, name);
  for (const use of uses) convertSignal(source, use, name);
}

function isInline(work: ts.Expression): work is ts.ArrowFunction | ts.FunctionExpression {
  return ts.isArrowFunction(work) || ts.isFunctionExpression(work);
}

function usesOf(source: Source, signal: ts.ParameterDeclaration, work: ts.Node): ts.Identifier[] {
  const symbol = source.checker.getSymbolAtLocation(signal.name);
  const uses: ts.Identifier[] = [];
  const visit = (node: ts.Node): void => {
    if (
      ts.isIdentifier(node) &&
      node !== signal.name &&
      symbolOf(source.checker, node) === symbol
    ) {
      uses.push(node);
    }
    ts.forEachChild(node, visit);
  };
  visit(work);
  return uses;
}

function symbolOf(checker: ts.TypeChecker, node: ts.Identifier): ts.Symbol | undefined {
  return ts.isShorthandPropertyAssignment(node.parent)
    ? checker.getShorthandAssignmentValueSymbol(node.parent)
    : checker.getSymbolAtLocation(node);
}

/** A name for the lock that hides nothing the routine uses. */
function freeName(work: ts.Node): string {
  const names = new Set<string>();
  const visit = (node: ts.Node): void => {
    if (ts.isIdentifier(node)) names.add(node.text);
    ts.forEachChild(node, visit);
  };
  visit(work);
  return ['lock', 'held'].find((name) => !names.has(name)) ?? 'heldLock';
}

function replaceParameter(
  source: Source,
  work: ts.ArrowFunction | ts.FunctionExpression,
  parameter: ts.ParameterDeclaration,
  name: string,
): void {
  const hasParentheses = work
    .getChildren(source.file)
    .some(({ kind }) => kind === ts.SyntaxKind.OpenParenToken);
  const trailing = work.parameters.hasTrailingComma ? work.parameters.end : parameter.end;
  const [start, end] = [parameter.getStart(source.file), trailing];
  source.replaceRange(start, end, name === '' && !hasParentheses ? '()' : name);
}

function convertSignal(source: Source, signal: ts.Identifier, lock: string): void {
  if (source.isReplaced(signal)) return;
  const { parent } = signal;
  if (ts.isShorthandPropertyAssignment(parent)) {
    source.replace(signal, `${signal.text}: ${lock}.signal`);
    return;
  }
  if (ts.isPropertyAccessExpression(parent) && parent.name.text === 'aborted') {
    const check = checkAround(parent, signal.text);
    if (check !== undefined) {
      source.replace(check, `${lock}.assertHeld();`);
      return;
    }
  }
  if (ts.isPropertyAccessExpression(parent) && parent.name.text === 'error') {
    source.replace(parent, `${lock}.signal.reason`);
    return;
  }
  source.replace(signal, `${lock}.signal`);
}

/** `if (signal.aborted) throw signal.error;` */
function checkAround(condition: ts.Expression, signal: string): ts.IfStatement | undefined {
  const statement = condition.parent;
  if (
    !ts.isIfStatement(statement) ||
    statement.elseStatement ||
    statement.expression !== condition
  ) {
    return undefined;
  }
  const { thenStatement } = statement;
  const only = ts.isBlock(thenStatement) ? thenStatement.statements : [thenStatement];
  const [thrown] = only;
  const isThrown =
    only.length === 1 &&
    thrown !== undefined &&
    ts.isThrowStatement(thrown) &&
    thrown.expression.getText() === `${signal}.error`;
  return isThrown ? statement : undefined;
}
