import { LockConfigError } from '../../core/lock.errors.js';
import { shownValue } from '../../core/runtime/shown-value.js';
import type { KeyParamDecorator } from './key-param.types.js';

import 'reflect-metadata';

const BINDINGS = Symbol.for('nestjs-locked/LockKeys');

const IDENTIFIER = /[\p{ID_Start}$_][\p{ID_Continue}$]*/u;

/**
 * Names a parameter for `@Locked`. Required if names do not survive the build (minifiers), and for parameters without a
 * name (`{ sku }: Order`).
 *
 * @example
 * @Locked('stock:<id>')
 * async take(@KeyParam('id') id: string) {}
 * @throws LockConfigError if it is not on a parameter of an instance method, if the name is not an identifier, or if
 * two parameters share a name
 */
export function KeyParam(name: string): KeyParamDecorator {
  // Without parentheses, it gets the arguments of a decorator.
  if (typeof name === 'object' || typeof name === 'function') {
    throw new LockConfigError(
      `Cannot apply @KeyParam in ${nameOf(name)}: it has no name; write it with parentheses, @KeyParam('id')`,
    );
  }
  return (owner: unknown, property?: unknown, position?: unknown): void => {
    const target = owner as object;
    const method = property as string | symbol | undefined;
    const refuse = (problem: string): never => {
      const where = `${nameOf(target)}${method === undefined ? '' : `.${String(method)}`}`;
      throw new LockConfigError(
        `Cannot apply @KeyParam(${shownValue(name)}) in ${where}: ${problem}`,
      );
    };
    if (typeof target === 'function' || typeof position !== 'number') {
      refuse(
        "it can only be used on the parameters of an instance method: async take(@KeyParam('id') id: string)",
      );
    }
    if (typeof name !== 'string' || name === '') {
      refuse("the name must be the one that the template uses, such as @KeyParam('id')");
    }
    const [identifier = 'id'] = IDENTIFIER.exec(name) ?? [];
    if (identifier !== name) {
      refuse(
        `the name must be an identifier, such as '${identifier}'; a path belongs in the template: @Locked('stock:<${identifier}.sku>')`,
      );
    }
    const bindings = new Map(lockKeyBindings(target, method as string | symbol));
    if (bindings.has(name)) refuse('another parameter has this name; give each its own');
    bindings.set(name, position as number);
    const ofMethods = new Map(ownBindings(target)).set(method as string | symbol, bindings);
    Reflect.defineMetadata(BINDINGS, ofMethods, target);
  };
}

/** The positions of the parameters with a `@KeyParam`, by its name. */
export function lockKeyBindings(
  target: object,
  method: string | symbol,
): ReadonlyMap<string, number> {
  return ownBindings(target).get(method) ?? new Map<string, number>();
}

/** The methods of this prototype that have a parameter with a `@KeyParam`. */
export function methodsWithKeyParam(target: object): (string | symbol)[] {
  return [...ownBindings(target).keys()];
}

type Bindings = ReadonlyMap<string | symbol, ReadonlyMap<string, number>>;

function ownBindings(target: object): Bindings {
  const bindings = Reflect.getOwnMetadata(BINDINGS, target) as Bindings | undefined;
  return bindings ?? new Map<never, never>();
}

function nameOf(target: object): string {
  return typeof target === 'function' ? target.name : target.constructor.name;
}
