import { isObject } from '../../core/arguments.js';
import { LockConfigError } from '../../core/lock.errors.js';
import type { LockKeys } from '../../core/lock.options.js';
import { quoted, quotedList } from '../../core/runtime/quoted.js';
import { describeValue, shownValue } from '../../core/runtime/shown-value.js';
import type { KeyFunction } from './compile-locked-key.js';
import type { LockedOptions } from './locked.options.js';

/** The arguments of `@Locked`, of which the first is a key. */
export type LockedArguments = readonly [
  key: LockKeys | KeyFunction,
  options: LockedOptions | undefined,
];

/**
 * Checks what `@Locked` was called with, before its target is known.
 *
 * @throws LockConfigError for `@Locked` without parentheses, which receives the target instead of a key
 */
export function assertCalled([target, name]: readonly unknown[]): void {
  const isMember = typeof name === 'string' || typeof name === 'symbol';
  if (!isObject(target) || !isMember) return;
  const className = (target.constructor as object['constructor'] | undefined)?.name ?? 'this class';
  throw new LockConfigError(
    `Cannot apply @Locked to ${className}.${String(name)}: it has no key; write @Locked('stock:<id>')`,
  );
}

/**
 * Checks the kinds of the arguments, and recognizes those of other lock decorators.
 *
 * @throws LockConfigError that shows the call to write instead
 */
export function assertLockedArguments(
  args: readonly unknown[],
  className: string,
  method: string,
): asserts args is LockedArguments {
  const refuse = (problem: string): never => {
    throw new LockConfigError(`Cannot apply @Locked to ${className}.${method}: ${problem}`);
  };
  const [key, options, ...others] = args;
  if (typeof key === 'number') {
    const paths = [options, ...others].filter((it) => typeof it === 'string');
    const template = [className, method, ...paths.map((path) => `<${path}>`)].join(':');
    const wait = typeof options === 'number' ? `, { waitMs: ${options} }` : '';
    refuse(
      `its first argument is ${key}, and not a key; the lease is renewed while the method runs, so it needs no time: write @Locked(${quoted(template)}${wait})`,
    );
  }
  if (isObject(key)) {
    const inside = (key as { key?: unknown }).key;
    const shown = quoted(typeof inside === 'string' ? inside : 'stock:<id>');
    refuse(
      `its first argument is ${describeValue(key)}, and not a key; write the key first, and then the options: @Locked(${shown}, { waitMs: 0 })`,
    );
  }
  if (typeof key !== 'string' && typeof key !== 'function' && !isListOfTemplates(key)) {
    const circular = key === undefined ? ' (undefined may come from a circular import)' : '';
    refuse(
      `its key is ${Array.isArray(key) && key.length === 0 ? 'an empty list' : shownValue(key)}${circular}; write a template such as @Locked('stock:<id>'), a list of templates, or a function`,
    );
  }
  if (typeof options === 'string' || Array.isArray(options)) {
    const list = [key, options, ...others].flat().filter((it) => typeof it === 'string');
    refuse(
      `its second argument is ${shownValue(options)}, and not an object of options; write several keys as a list, @Locked([${quotedList(list)}]), and a parameter in angle brackets, as in 'stock:<id>'`,
    );
  }
  if (typeof options === 'number') {
    refuse(
      `its second argument is ${options}, and not an object of options; the lease is renewed while the method runs, so it needs no time; to change how long it lasts after a crash, write { leaseMs: ${options} }`,
    );
  }
  if (others.length > 0) {
    refuse(
      `it has ${args.length} arguments, and takes a key and options; write the options as one object, such as { waitMs: 0, leaseMs: 5000 }`,
    );
  }
}

function isListOfTemplates(key: unknown): boolean {
  return Array.isArray(key) && key.length > 0;
}
