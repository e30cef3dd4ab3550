import ts from 'typescript';
import { oldNameAt, oldTypeOf } from '../old-names.js';
import type { Source } from '../source.js';
import { isSupport } from './calls.js';
import type { RedlockUse } from './settings.js';

/** Renames the types and errors of redlock. */
export function convertName(source: Source, node: ts.Identifier, use: RedlockUse): void {
  const old = oldNameAt(source.checker, node);
  if (old?.library !== 'redlock' || use.whyNone !== undefined || source.isReplaced(node)) return;
  switch (old.name) {
    case 'Lock':
      if (use.whyNoHandles === undefined) rename(source, node, source.use('Lock'));
      return;
    case 'RedlockAbortSignal':
      return rename(source, node, 'AbortSignal');
    case 'ExecutionError':
    case 'ResourceLockedError':
      if (isInSupport(node)) return;
      if (readsAttempts(source)) {
        return source.tell(
          'left',
          'redlock',
          node,
          `${node.text}: its attempts are read in this file, and LockNotAcquiredError has none`,
        );
      }
      rename(source, node, source.use('LockNotAcquiredError'));
      return source.tell(
        'check',
        'redlock',
        node,
        'it means that the lock was busy; if Redis failed, the error is a LockStoreError',
      );
  }
}

function rename(source: Source, node: ts.Identifier, name: string): void {
  // Of `Redlock.Lock`, the whole.
  const whole = ts.isQualifiedName(node.parent) ? node.parent : node;
  source.tell(
    'changed',
    'redlock',
    node,
    `${whole.getText()} → ${name === 'AbortSignal' ? name : `${name} of nestjs-locked`}`,
  );
  source.replace(whole, name);
}

/** Finds members by the names that locks of ours have: `lock.resources` is `lock.keys`. */
export function convertMember(
  source: Source,
  node: ts.PropertyAccessExpression,
  use: RedlockUse,
): void {
  if (node.name.text !== 'resources' || use.whyNone !== undefined) return;
  if (use.whyNoHandles !== undefined || oldTypeOf(source.checker, node.expression)?.name !== 'Lock')
    return;
  source.replace(node.name, 'keys');
  source.tell('changed', 'redlock', node, 'resources → keys');
}

/** Errors that are compared by their names. */
export function tellErrorNames(source: Source, node: ts.StringLiteral): void {
  const { parent } = node;
  const isCompared = ts.isBinaryExpression(parent) || ts.isCaseClause(parent);
  if (!isCompared || !['ExecutionError', 'ResourceLockedError'].includes(node.text)) return;
  source.tell(
    'left',
    'redlock',
    node,
    `'${node.text}': compare error.code with 'LOCK_NOT_ACQUIRED'`,
  );
}

function isInSupport(node: ts.Node): boolean {
  for (let at = node; !ts.isSourceFile(at); at = at.parent) {
    if (ts.isCallExpression(at) && isSupport(at)) return true;
  }
  return false;
}

function readsAttempts({ file, checker }: Source): boolean {
  const reads = (node: ts.Node): boolean =>
    (ts.isPropertyAccessExpression(node) &&
      node.name.text === 'attempts' &&
      oldTypeOf(checker, node.expression)?.name === 'ExecutionError') ||
    (ts.forEachChild(node, reads) ?? false);
  return reads(file);
}
