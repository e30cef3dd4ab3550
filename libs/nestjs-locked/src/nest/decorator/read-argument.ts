import type { KeyTemplate } from '../../core/keys/key-template.js';
import { LockConfigError, LockKeyError } from '../../core/lock.errors.js';
import { quoted } from '../../core/runtime/quoted.js';
import type { DecoratedMethod } from './decorated-method.js';
import { lockKeyBindings } from './key-param.decorator.js';
import { parametersInClass, readParameters, type SourceParameter } from './parameter-names.js';
import { positionOfName } from './position-of-name.js';
import { unboundName } from './unbound-name.js';

/** The arguments of a call. */
export type Arguments = readonly unknown[];

/** Reads an argument as it was passed: JavaScript applies default values only when the method itself runs. */
export type ReadArgument = (args: Arguments) => unknown;

/**
 * Binds the root of a placeholder, a name or a position, to a parameter of the method.
 *
 * @throws LockConfigError if there is no such parameter, or if it is not certain which one is meant. The returned
 * function throws LockKeyError if the call has left the argument out and the method has a default value for it
 */
export function readArgument(
  root: string,
  template: KeyTemplate,
  method: DecoratedMethod,
): ReadArgument {
  const where = `${quoted(template.text)} of ${method.callSite}`;
  const refuse = (problem: string): never => {
    throw new LockConfigError(`Cannot bind <${root}> in ${where}: ${problem}`);
  };
  const read = (position: number, parameter: SourceParameter | undefined): ReadArgument =>
    parameter?.hasDefault === true
      ? (args) => given(args[position], root, where, parameter.text)
      : (args) => args[position];

  if (/^\d+$/.test(root)) {
    const position = Number(root);
    const parameters = parametersInClass(method);
    const isThere =
      parameters === undefined ||
      position < parameters.length ||
      parameters.some(({ isRest }) => isRest);
    if (isThere) return read(position, parameters?.[position]);
    const count = `${parameters.length} ${parameters.length === 1 ? 'parameter' : 'parameters'}`;
    return refuse(
      parameters.length === 0
        ? 'it has no parameters'
        : `it has ${count}, and positions begin with 0: the last one is <${parameters.length - 1}>`,
    );
  }

  const bindings = lockKeyBindings(method.target, method.name);
  const bound = bindings.get(root);
  if (bound !== undefined) return read(bound, parametersInClass(method)?.[bound]);

  if (root === 'this') {
    return refuse(
      'a key is built from the arguments of the call; pass the value as one, or use withLock of LockService inside the method',
    );
  }
  if ([...root].length === 1) {
    return refuse(
      `a name of one letter cannot be told from a minified one, which may be that of another parameter; use a longer name, its position such as <0>, @KeyParam('${root}') on the parameter, or a function`,
    );
  }
  const parameters = readParameters(method);
  const position = parameters && positionOfName(root, parameters);
  if (position === undefined) return refuse(unboundName(root, parameters, bindings));
  const parameter = parameters?.[position];
  return parameter?.isRest === true ? (args) => args.slice(position) : read(position, parameter);
}

/** @throws LockKeyError if the call has left out an argument for which the method has a default */
function given(value: unknown, root: string, where: string, parameter: string): unknown {
  if (value !== undefined) return value;
  throw new LockKeyError(
    `Cannot build a lock key from ${where}: <${root}> was left out, and its default in (${parameter}) is set when the method runs, after the key is built; pass it in the call, or use a function with the same default: @Locked((${parameter}) => …)`,
  );
}
