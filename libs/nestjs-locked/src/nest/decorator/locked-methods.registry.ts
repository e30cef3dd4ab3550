import type { MethodKind } from '../result/result-kind.js';
import type { Method } from './decorated-method.js';
import { methodsWithKeyParam } from './key-param.decorator.js';

/** The property that marks a locked method. */
export const LOCKED_METHOD = Symbol.for('nestjs-locked/LockedMethod');

/**
 * The property in which a prototype lists its locked methods, because another decorator may hide the wrapper behind its
 * own.
 */
const LOCKED_METHODS = Symbol.for('nestjs-locked/LockedMethods');

/** The description of a locked method at run time. */
export interface LockedMethodInfo {
  readonly className: string;
  readonly name: string | symbol;
  /** Undefined if a function builds the key. */
  readonly template: string | undefined;
  /** The name of its lock service; undefined for the service without a name. */
  readonly service: string | undefined;
  readonly kind: MethodKind;
  /** The function that takes the lock. A record on any other function is a copy. */
  readonly wrapper: Method;
}

/** A method of a subclass that replaces a locked one and takes no lock. */
export interface UnlockedOverride {
  readonly className: string;
  readonly locked: LockedMethodInfo;
}

type Registered = ReadonlyMap<string | symbol, readonly LockedMethodInfo[]>;

/**
 * The locked methods of an instance that are wrapped by a decorator above `@Locked`. That decorator acts before the
 * lock is requested, for example by opening a transaction.
 */
export function wrappedMethodsOf(instance: object): LockedMethodInfo[] {
  return prototypesOf(instance).flatMap((prototype) =>
    [...ownLockedMethods(prototype).values()].flatMap((infos) => {
      const outermost = infos.at(-1) as LockedMethodInfo;
      const method: unknown = Object.getOwnPropertyDescriptor(prototype, outermost.name)?.value;
      return method === outermost.wrapper ? [] : [outermost];
    }),
  );
}

/** Records the method on its wrapper and its prototype. */
export function registerLockedMethod(target: object, info: LockedMethodInfo): void {
  Object.defineProperty(info.wrapper, LOCKED_METHOD, { value: info, configurable: true });
  const registered = new Map(ownLockedMethods(target));
  registered.set(info.name, [...(registered.get(info.name) ?? []), info]);
  Object.defineProperty(target, LOCKED_METHODS, { value: registered, configurable: true });
}

/** All locked methods of an instance, including those of its base classes and those that are overridden. */
export function lockedMethodsOf(instance: object): LockedMethodInfo[] {
  return prototypesOf(instance).flatMap((prototype) =>
    [...ownLockedMethods(prototype).values()].flat(),
  );
}

/**
 * The locked methods of an instance that a subclass overrides without locking. An override that calls the replaced
 * method through `super` is not counted, because that method still runs under the lock.
 */
export function unlockedOverridesOf(instance: object): UnlockedOverride[] {
  const prototypes = prototypesOf(instance);
  const byName = new Map(lockedMethodsOf(instance).map((info) => [info.name, info]));
  return [...byName.values()].flatMap((locked) => {
    const visible = prototypes.find(
      (prototype) => Object.hasOwn(prototype, locked.name) && !callsSuper(prototype, locked.name),
    );
    if (visible === undefined || ownLockedMethods(visible).has(locked.name)) return [];
    return [{ className: visible.constructor.name, locked }];
  });
}

/** The methods of an instance that have a `@KeyParam`, but are not locked, so that it has no effect. */
export function unlockedKeyParamsOf(instance: object): { className: string; name: string }[] {
  const locked = new Set(lockedMethodsOf(instance).map(({ name }) => name));
  return prototypesOf(instance).flatMap((prototype) =>
    methodsWithKeyParam(prototype)
      .filter((name) => !locked.has(name))
      .map((name) => ({ className: prototype.constructor.name, name: String(name) })),
  );
}

function ownLockedMethods(prototype: object): Registered {
  const registered: unknown = Object.hasOwn(prototype, LOCKED_METHODS)
    ? Reflect.get(prototype, LOCKED_METHODS)
    : undefined;
  return (registered as Registered | undefined) ?? new Map<never, never>();
}

/** The instance itself comes first, because an object decorated by hand has the record itself. */
function prototypesOf(instance: object): object[] {
  const prototypes: object[] = [];
  for (
    let prototype: object | null = instance;
    prototype !== null && prototype !== Object.prototype;
    prototype = Object.getPrototypeOf(prototype) as object | null
  ) {
    prototypes.push(prototype);
  }
  return prototypes;
}

function callsSuper(prototype: object, name: string | symbol): boolean {
  const method: unknown = Object.getOwnPropertyDescriptor(prototype, name)?.value;
  if (typeof method !== 'function' || ownLockedMethods(prototype).has(name)) return false;
  const called = /\bsuper\s*(?:\.\s*([\p{ID_Continue}$]+)|\[)/gu;
  return [...method.toString().matchAll(called)].some(
    ([, property]) => property === undefined || property === name,
  );
}
