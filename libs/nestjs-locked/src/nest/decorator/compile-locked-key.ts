import { KeyTemplate } from '../../core/keys/key-template.js';
import { assertLockKey } from '../../core/keys/lock-key.js';
import { LockKeyError } from '../../core/lock.errors.js';
import type { LockKeys } from '../../core/lock.options.js';
import type { DecoratedMethod } from './decorated-method.js';
import { lockKeyBindings } from './key-param.decorator.js';
import { readParameters } from './parameter-names.js';
import { type Arguments, type ReadArgument, readArgument } from './read-argument.js';

/** Builds the key or keys from the arguments of a call. */
export type KeyFunction = (...args: unknown[]) => unknown;

/**
 * Compiles the key of `@Locked` into a function that returns the key of a call. Detectable mistakes are reported here,
 * while the class is being defined.
 *
 * @throws LockConfigError if the template is invalid or names a parameter that does not exist. The returned function
 * throws LockKeyError
 */
export function compileLockedKey(
  key: LockKeys | KeyFunction,
  method: DecoratedMethod,
): (args: Arguments) => LockKeys {
  if (typeof key === 'function') return compileFunction(key, method);
  if (typeof key === 'string') return compileTemplate(key, method);
  const templates = key.map((template: string) => compileTemplate(template, method));
  return (args) => templates.flatMap((keysOf) => keysOf(args));
}

function compileFunction(key: KeyFunction, { callSite }: DecoratedMethod) {
  return (args: Arguments): LockKeys => {
    try {
      const result = key(...args);
      const keys: unknown[] = Array.isArray(result) ? result : [result];
      if (result === undefined || result instanceof Promise) throw notReturned(result);
      for (const it of keys) assertLockKey(it); // holes included
      if (keys.length === 0)
        throw new LockKeyError(
          'it returned an empty list: nothing would be locked; call the method only if there is something to lock',
        );
      return keys as string[];
    } catch (cause) {
      const message = cause instanceof Error ? cause.message : String(cause);
      const reason =
        cause instanceof LockKeyError
          ? message
          : `${message}; it is called with the arguments of the method, and without its instance`;
      throw new LockKeyError(
        `Cannot build a lock key with the key function of ${callSite}: ${reason}`,
        undefined,
        { cause },
      );
    }
  };
}

function notReturned(result: unknown): LockKeyError {
  if (!(result instanceof Promise))
    return new LockKeyError("it returned undefined; a body in braces needs 'return'");
  result.catch(() => {}); // must not also end the process by its rejection
  return new LockKeyError(
    'it returned a Promise; build the key from the arguments alone, without async',
  );
}

/** One letter may be a minifier's name for a parameter that the author did not mean. */
function isNameOfParameter(name: string, method: DecoratedMethod): boolean {
  if ([...name].length === 1) return false;
  const parameters = readParameters(method) ?? [];
  return (
    parameters.some((it) => [it, ...it.parts].some((part) => part.name === name)) ||
    lockKeyBindings(method.target, method.name).has(name)
  );
}

function compileTemplate(text: string, method: DecoratedMethod) {
  const template = new KeyTemplate(text, method.callSite);
  template.assertFilledIn(({ root }) => isNameOfParameter(root, method));
  const readers = new Map<string, ReadArgument>();
  for (const { root } of template.placeholders) {
    if (!readers.has(root)) readers.set(root, readArgument(root, template, method));
  }
  return (args: Arguments): string[] => template.render((root) => readers.get(root)?.(args));
}
