import 'reflect-metadata';

/** Whether a method is declared to return an Observable, if the compiler emits its types. */
export function isDeclaredObservable(target: object, name: string | symbol): boolean {
  const declared: unknown = Reflect.getOwnMetadata('design:returntype', target, name);
  return typeof declared === 'function' && isObservableClass(declared.prototype);
}

/** Recognized by its methods, because two copies of rxjs may be installed, and subjects count as well. */
function isObservableClass(prototype: unknown): boolean {
  const { subscribe, pipe } = (prototype ?? {}) as { subscribe?: unknown; pipe?: unknown };
  return typeof subscribe === 'function' && typeof pipe === 'function';
}
