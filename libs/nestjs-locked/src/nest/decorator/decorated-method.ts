import { LockConfigError } from '../../core/lock.errors.js';

/** Any method, as its wrapper sees it. */
export type Method = (this: unknown, ...args: unknown[]) => unknown;

/** A decorated method. */
export interface DecoratedMethod {
  /** The prototype that has the method. */
  readonly target: object;
  readonly className: string;
  readonly name: string | symbol;
  /** The caller's name in messages: `StockService.take`. */
  readonly callSite: string;
  /** The present function; another decorator may have replaced the author's. */
  readonly original: Method;
}

/**
 * Checks the target of `@Locked`.
 *
 * @throws LockConfigError for anything but an instance method decorated under `experimentalDecorators`
 */
export function decoratedMethod(
  target: unknown,
  name: unknown,
  descriptor: PropertyDescriptor | undefined,
): DecoratedMethod {
  if (typeof name === 'object' && name !== null && 'kind' in name) {
    throw new LockConfigError(
      `Cannot apply @Locked to ${'name' in name ? String(name.name) : 'this class'}: the compiler uses the decorators of TC39, Nest those of TypeScript; set "experimentalDecorators": true in tsconfig.json`,
    );
  }
  if (typeof name !== 'string' && typeof name !== 'symbol') {
    throw new LockConfigError(
      typeof target === 'function'
        ? `Cannot apply @Locked to ${target.name}: it can only be used on methods; put it on each method that needs the lock`
        : 'Cannot apply @Locked in the place of an interceptor: it can only be used on methods; put it on the method itself, or write @UseInterceptors(LockInterceptor(…))',
    );
  }
  const owner = typeof target === 'function' ? target : (target as object).constructor;
  const className = owner?.name || '(anonymous class)';
  const callSite = `${className}.${String(name)}`;
  const refuse = (problem: string): never => {
    throw new LockConfigError(`Cannot apply @Locked to ${callSite}: ${problem}`);
  };
  if (typeof target === 'function') {
    refuse('it is static, and a class gets no LockService injected; make it an instance method');
  }
  if (descriptor?.get !== undefined || descriptor?.set !== undefined) {
    refuse('it is an accessor, which cannot wait for a lock; make it an async method');
  }
  if (typeof descriptor === 'number') {
    refuse(
      `it is on parameter <${descriptor as number}>; put it on the method, and @KeyParam('name') on the parameter`,
    );
  }
  const original: unknown = descriptor?.value;
  if (typeof original !== 'function') {
    return refuse('it is a property, not a method; write it as a method: async name() { … }');
  }
  if ((original as { [Symbol.toStringTag]?: string })[Symbol.toStringTag] === 'GeneratorFunction') {
    refuse('it is a generator, which cannot wait for a lock; make it an async generator');
  }
  return { target: target as object, className, name, callSite, original: original as Method };
}

/**
 * Compilers that check no types let a method pass whose callers would get a Promise, which is always true.
 *
 * @throws LockConfigError if the compiler emits types, and that of the result is a plain one
 */
export function assertMayWait({ target, name, callSite }: DecoratedMethod): void {
  const declared: unknown = Reflect.getOwnMetadata('design:returntype', target, name);
  if (![Boolean, Number, String, Array].some((plain) => plain === declared)) return;
  throw new LockConfigError(
    `Cannot apply @Locked to ${callSite}: it is declared to return a plain value, and a locked call returns a Promise; make it async`,
  );
}
