import { KeyTemplate } from '../../core/keys/key-template.js';
import { assertLockKey } from '../../core/keys/lock-key.js';
import { LockConfigError, LockKeyError } from '../../core/lock.errors.js';
import type { LockKeys } from '../../core/lock.options.js';
import { quoted } from '../../core/runtime/quoted.js';
import type { DecoratedMethod } from './decorated-method.js';
import { lockKeyBindings } from './key-param.decorator.js';
import { parametersInClass, readParameters } from './parameter-names.js';

/** Builds the key or keys from the arguments of a call. */
export type KeyFunction = (...args: unknown[]) => unknown;

type Arguments = readonly unknown[];
type ReadArgument = (args: Arguments) => unknown;

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
  if (!Array.isArray(key) || key.length === 0) {
    throw new LockConfigError(
      `Invalid key of @Locked on ${method.callSite}: it must be a template such as 'stock:<id>', a list of templates, or a function`,
    );
  }
  const templates = key.map((template: string) => compileTemplate(template, method));
  return (args) => templates.flatMap((keysOf) => keysOf(args));
}

function compileFunction(key: KeyFunction, { callSite }: DecoratedMethod) {
  return (args: Arguments): LockKeys => {
    try {
      const result = key(...args);
      const keys: unknown[] = Array.isArray(result) ? result : [result];
      for (const it of keys) assertLockKey(it); // holes included
      if (keys.length === 0)
        throw new LockKeyError('it returned an empty list: nothing would be locked');
      return keys as string[];
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new LockKeyError(
        `Cannot build a lock key with the key function of ${callSite}: ${reason}`,
        undefined,
        { cause },
      );
    }
  };
}

function compileTemplate(text: string, method: DecoratedMethod) {
  const template = new KeyTemplate(text, method.callSite);
  const readers = new Map<string, ReadArgument>();
  for (const { root } of template.placeholders) {
    if (!readers.has(root)) readers.set(root, readArgument(root, template, method));
  }
  return (args: Arguments): string[] => template.render((root) => readers.get(root)?.(args));
}

/** Reads an argument as it was passed: JavaScript applies default values only when the method itself runs. */
function readArgument(root: string, template: KeyTemplate, method: DecoratedMethod): ReadArgument {
  if (/^\d+$/.test(root)) return readPosition(Number(root), template, method);

  const bindings = lockKeyBindings(method.target, method.name);
  const bound = bindings.get(root);
  if (bound !== undefined) return (args) => args[bound];

  const shown = `${quoted(template.text)} of ${method.callSite}`;
  const waysOut = `its position such as <0>, @KeyParam('${root}') on the parameter, or a function`;
  if (root === 'this') {
    throw new LockConfigError(
      `Cannot bind <this> in ${shown}: a key is built from the arguments of the call; pass the value as one, or use withLock of LockService inside the method`,
    );
  }
  if ([...root].length === 1) {
    throw new LockConfigError(
      `Cannot bind <${root}> in ${shown}: a name of one letter cannot be told from a minified one; use a longer name, ${waysOut}`,
    );
  }
  const parameters = readParameters(method);
  const index = parameters?.findIndex(({ name }) => name === root) ?? -1;
  if (parameters === undefined || index < 0) {
    const names = [...bindings.keys(), ...(parameters ?? []).flatMap(({ name }) => name ?? [])];
    const found =
      parameters === undefined
        ? 'its source cannot be read'
        : `its parameters are ${names.length === 0 ? 'without names' : names.map(quoted).join(', ')}`;
    throw new LockConfigError(
      `Cannot bind <${root}> in ${shown}: ${found}; use one of them, ${waysOut}`,
    );
  }
  return parameters[index]?.isRest === true ? (args) => args.slice(index) : (args) => args[index];
}

function readPosition(
  position: number,
  template: KeyTemplate,
  method: DecoratedMethod,
): ReadArgument {
  const parameters = parametersInClass(method);
  const isThere =
    parameters === undefined ||
    position < parameters.length ||
    parameters.some(({ isRest }) => isRest === true);
  if (isThere) return (args) => args[position];
  const count = `${parameters.length} ${parameters.length === 1 ? 'parameter' : 'parameters'}`;
  throw new LockConfigError(
    `Cannot bind <${position}> in ${quoted(template.text)} of ${method.callSite}: it has ${count}, and positions begin with 0`,
  );
}
