import { LockConfigError } from '../../core/lock.errors.js';
import { quoted } from '../../core/runtime/quoted.js';

import 'reflect-metadata';

const BINDINGS = Symbol.for('nestjs-locked/LockKeys');

/**
 * Names a parameter for `@Locked`. Required if names do not survive the build (minifiers), and for parameters without a
 * name (`{ sku }: Order`).
 *
 * @example
 * @Locked('stock:<id>')
 * async take(@KeyParam('id') id: string) {}
 * @throws LockConfigError if it is not on a parameter of an instance method, or if two parameters share a name
 */
export function KeyParam(name: string): ParameterDecorator {
  return (target, method, index) => {
    const owner = typeof target === 'function' ? target.name : target.constructor.name;
    const refuse = (problem: string): never => {
      throw new LockConfigError(
        `Cannot apply @KeyParam(${quoted(String(name))}) in ${owner}: ${problem}`,
      );
    };
    if (typeof method === 'object' || typeof target === 'function' || method === undefined) {
      refuse('it can only be used on the parameters of an instance method');
    } else {
      if (typeof name !== 'string' || !/^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name)) {
        refuse(
          "the name must be an identifier; paths belong in the template: @Locked('stock:<order.sku>')",
        );
      }
      const bindings = new Map(lockKeyBindings(target, method));
      if (bindings.has(name)) refuse(`two parameters of ${String(method)} have this name`);
      bindings.set(name, index);
      Reflect.defineMetadata(BINDINGS, bindings, target, method);
    }
  };
}

/** The positions of the parameters with a `@KeyParam`, by its name. */
export function lockKeyBindings(
  target: object,
  method: string | symbol,
): ReadonlyMap<string, number> {
  const bindings = Reflect.getOwnMetadata(BINDINGS, target, method) as
    ReadonlyMap<string, number> | undefined;
  return bindings ?? new Map<string, number>();
}
