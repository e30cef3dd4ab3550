import ts from 'typescript';
import { oldTypeOf } from '../old-names.js';
import type { Source } from '../source.js';
import { holdOptions, isRefusedKey, optionsText } from '../syntax.js';
import type { LockServices } from './lock-services.js';
import { extended, extensionOf, type RedlockUse, waitOf } from './settings.js';
import { isNeverReleased } from './unreleased.js';
import { convertWork, workProblem } from './work.js';

type Options = readonly (readonly [name: string, value: string])[];

const OF_VERSION_4 = ['lock', 'unlock', 'disposer'];

/** Turns what is called on a `Redlock`, or on one of its locks, into what a `LockService` and its locks have. */
export function convertCall(
  source: Source,
  call: ts.CallExpression,
  use: RedlockUse,
  services: LockServices,
): void {
  const callee = call.expression;
  if (!ts.isPropertyAccessExpression(callee)) return;
  const member = callee.name.text;
  const owner = oldTypeOf(source.checker, callee.expression);
  if (owner === undefined) return tellUnknown(source, call, callee);
  if (owner.library !== 'redlock') return;
  const leave = (reason: string): void =>
    source.tell('left', 'redlock', call, `${source.textOf(callee)}(): ${reason}`);
  if (owner.name === 'Lock') {
    if (member === 'extend' && isConvertible(use)) convertExtend(source, callee);
    return;
  }
  if (owner.name !== 'Redlock' || isSupport(call)) return;
  if (OF_VERSION_4.includes(member))
    return leave('it is of redlock 4; only version 5 is rewritten');
  if (use.whyNone !== undefined) return leave(use.whyNone);
  switch (member) {
    case 'using':
      return convertUsing(source, call, use, services, leave);
    case 'acquire':
      return convertAcquire(source, call, use, services, leave);
    case 'release':
    case 'extend': {
      if (use.whyNoHandles !== undefined) return leave(use.whyNoHandles);
      if (member === 'extend') return convertExtend(source, callee);
      const [lock] = call.arguments;
      if (lock !== undefined) source.replace(call, `${source.textOf(lock)}.release()`);
      return source.tell('changed', 'redlock', call, 'release(lock) → lock.release()');
    }
    default:
      return leave('it has no counterpart');
  }
}

/** Whether a call only listens to the errors of a `Redlock`: it goes with it. */
export function isSupport(call: ts.CallExpression): boolean {
  return (
    ts.isPropertyAccessExpression(call.expression) &&
    call.expression.name.text === 'on' &&
    ts.isExpressionStatement(call.parent)
  );
}

function isConvertible({ whyNone, whyNoHandles }: RedlockUse): boolean {
  return whyNone === undefined && whyNoHandles === undefined;
}

function convertUsing(
  source: Source,
  call: ts.CallExpression,
  use: RedlockUse,
  services: LockServices,
  leave: (reason: string) => void,
): void {
  const [keys, duration, ...rest] = call.arguments;
  const work = rest.at(-1);
  if (!keys || !duration || !work) return leave('its arguments are not written here');
  const problem = keyProblem(source, keys) ?? services.whyNone(call) ?? workProblem(source, work);
  if (problem !== undefined) return leave(problem);
  const settings = rest.length > 1 ? rest[0] : undefined;
  const callee = `${services.at(source, call)}.withLock`;
  source.tell('changed', 'redlock', call, `${source.textOf(call.expression)} → ${callee}`);
  source.replace(call.expression, callee);
  const hold = holdOptions(source.checker, duration);
  const options = optionsText(optionsOf(source, call, use, settings, hold));
  source.replaceArguments(keys, work, [
    keyText(source, keys),
    ...(options === '' ? [] : [options]),
  ]);
  convertWork(source, work);
}

function convertAcquire(
  source: Source,
  call: ts.CallExpression,
  use: RedlockUse,
  services: LockServices,
  leave: (reason: string) => void,
): void {
  const [keys, duration, settings] = call.arguments;
  if (!keys || !duration) return leave('its arguments are not written here');
  const problem = keyProblem(source, keys) ?? services.whyNone(call) ?? use.whyNoHandles;
  if (problem !== undefined) return leave(problem);
  const callee = `${services.at(source, call)}.acquire`;
  source.tell('changed', 'redlock', call, `${source.textOf(call.expression)} → ${callee}`);
  const hold = isNeverReleased(source, call)
    ? fixedLease(source, call, duration)
    : holdOptions(source.checker, duration);
  const options = optionsText(optionsOf(source, call, use, settings, hold));
  source.replace(call.expression, callee);
  const [start, end] = [keys.getStart(source.file), (settings ?? duration).end];
  const key = keyText(source, keys);
  source.replaceRange(start, end, options === '' ? key : `${key}, ${options}`);
}

/** A lock that nobody releases has to end as before, because a renewed one would last for `maxHoldMs`. */
function fixedLease(source: Source, call: ts.CallExpression, duration: ts.Expression): Options {
  source.tell(
    'check',
    'redlock',
    call,
    'nothing releases this lock, so that its key is free when leaseMs has passed, as before: renew is false',
  );
  const limit = holdOptions(source.checker, duration).filter(([name]) => name !== 'leaseMs');
  return [['leaseMs', source.textOf(duration)], ['renew', 'false'], ...limit];
}

function convertExtend(source: Source, callee: ts.PropertyAccessExpression): void {
  const [place, lock] = [extensionOf(callee), extended(callee)];
  const call = callee.parent;
  if (place === undefined || lock === undefined || !ts.isCallExpression(call)) return;
  const ms = call.arguments.at(-1);
  const text = `await ${source.textOf(lock)}.ensureRemaining(${ms ? source.textOf(ms) : ''})`;
  source.tell('changed', 'redlock', place, `${source.textOf(place)} → ${text}`);
  source.tell(
    'check',
    'redlock',
    place,
    'locks are renewed by themselves: you can probably remove this',
  );
  source.replace(place, text);
}

function optionsOf(
  source: Source,
  call: ts.CallExpression,
  use: RedlockUse,
  settings: ts.Expression | undefined,
  hold: Options,
): Options {
  const waitMs = waitOf(source.checker, use, settings);
  if (waitMs === undefined) {
    source.tell(
      'check',
      'redlock',
      call,
      'retryCount and retryDelay cannot be seen: set waitMs, how long a call waits (10 s by default)',
    );
  }
  return [...(waitMs === undefined ? [] : [['waitMs', waitMs] as const]), ...hold];
}

/** One key is written as a text, several as a list. */
function keyText(source: Source, keys: ts.Expression): string {
  if (!ts.isArrayLiteralExpression(keys)) return source.textOf(keys);
  const [only] = keys.elements;
  return keys.elements.length === 1 && only !== undefined && !ts.isSpreadElement(only)
    ? source.textOf(only)
    : source.textOf(keys);
}

function keyProblem({ checker }: Source, keys: ts.Expression): string | undefined {
  if (ts.isArrayLiteralExpression(keys) && keys.elements.length === 0) {
    return 'it locks nothing: a list of keys without any is refused';
  }
  const elements = ts.isArrayLiteralExpression(keys) ? keys.elements : [keys];
  return elements.some((element) => isRefusedKey(checker, element))
    ? "braces, '<' and route parameters such as /:id are refused in a key; take them out of it"
    : undefined;
}

/** A call that looks like one of redlock, on something whose type is not known. */
function tellUnknown(
  source: Source,
  call: ts.CallExpression,
  { expression, name }: ts.PropertyAccessExpression,
): void {
  const isUnknown = (source.checker.getTypeAtLocation(expression).flags & ts.TypeFlags.Any) !== 0;
  if (!isUnknown || !['using', 'acquire'].includes(name.text)) return;
  if (!/redlock/i.test(source.textOf(expression))) return;
  source.tell(
    'left',
    'redlock',
    call,
    `${source.textOf(expression)}.${name.text}(): the type of ${source.textOf(expression)} is not known; declare it as Redlock`,
  );
}
