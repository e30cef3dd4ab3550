import ts from 'typescript';
import { oldNameAt, oldTypeOf } from '../old-names.js';
import type { Source } from '../source.js';
import { constantNumber, holdOptions, isRefusedKey, optionsText } from '../syntax.js';
import type { MurlockSettings } from './settings.js';

/** Turns `locks.runWithLock(key, 5000, work)` of a `MurLockService` into `locks.withLock(key, work)`. */
export function convertRunWithLock(
  source: Source,
  call: ts.CallExpression,
  settings: MurlockSettings,
): void {
  const { checker } = source;
  const { expression } = call;
  if (!ts.isPropertyAccessExpression(expression) || expression.name.text !== 'runWithLock') return;
  if (oldTypeOf(checker, expression.expression)?.name !== 'MurLockService') return;
  const [key, duration, ...others] = call.arguments;
  const work = others.at(-1);
  const leave = (reason: string): void =>
    source.tell('left', 'murlock', call, `runWithLock: ${reason}`);
  if (!key || !duration || !work) return leave('its arguments are not written here');
  if (isRefusedKey(checker, key)) {
    return leave(
      `the key ${key.getText()} has braces, '<' or a route parameter, which are refused`,
    );
  }
  const wait = others.length > 1 ? others[0] : undefined;
  const options = [...holdOptions(checker, duration)];
  if (wait !== undefined && settings.blocking !== true) {
    const each = constantNumber(checker, wait);
    if (each !== undefined && settings.maxAttempts !== undefined) {
      options.unshift(['waitMs', String(each * settings.maxAttempts)]);
    } else {
      source.tell(
        'check',
        'murlock',
        call,
        `its pauses (${wait.getText()}) are gone: set waitMs, how long a call waits in all`,
      );
    }
  }
  source.tell('changed', 'murlock', call, 'runWithLock → withLock');
  source.replace(expression.name, 'withLock');
  const written = optionsText(options);
  source.replaceArguments(key, work, [source.textOf(key), ...(written === '' ? [] : [written])]);
}

/** What the names of murlock become where they are types, tokens or errors. */
const RENAMED: Readonly<Record<string, string>> = {
  MurLockService: 'LockService',
  MurLockException: 'LockNotAcquiredError',
  MurLockRedisException: 'LockStoreError',
  MurLockModuleOptions: 'RedisLockModuleOptions',
};

/** @param isModuleLeft whether options of `MurLockModule` stay as they are */
export function convertName(source: Source, node: ts.Identifier, isModuleLeft: boolean): void {
  const old = oldNameAt(source.checker, node);
  const renamed = old?.library === 'murlock' ? RENAMED[old.name] : undefined;
  if (renamed === undefined || source.isReplaced(node)) return;
  if (isModuleLeft && renamed === 'RedisLockModuleOptions') return;
  if (isReplacement(node)) {
    source.tell(
      'left',
      'murlock',
      node,
      `${node.text} is replaced here; in a test, use TestLocks or LockTestingModule of nestjs-locked/testing`,
    );
    return;
  }
  source.tell('changed', 'murlock', node, `${node.text} → ${renamed}`);
  if (renamed === 'LockNotAcquiredError') {
    source.tell(
      'check',
      'murlock',
      node,
      'it means that the lock was busy; if Redis failed, the error is a LockStoreError',
    );
  }
  source.replace(node, source.use(renamed));
}

/** Whether a test puts something else in the place of the service. */
function isReplacement({ parent }: ts.Node): boolean {
  if (ts.isPropertyAssignment(parent)) return parent.name.getText() === 'provide';
  return (
    ts.isCallExpression(parent) &&
    ts.isPropertyAccessExpression(parent.expression) &&
    /^override/.test(parent.expression.name.text)
  );
}
