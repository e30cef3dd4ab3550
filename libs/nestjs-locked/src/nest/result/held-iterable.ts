import { heldIterator } from './held-iterator.js';
import type { ManualHold } from './manual-hold.js';
import { ResultReaders } from './result-readers.js';

/** An async iterable whose lock is already held and is released when its last iteration ends. */
export function heldIterable(
  source: AsyncIterable<unknown>,
  hold: ManualHold,
  callSite: string,
): unknown {
  const readers = new ResultReaders(hold, callSite);
  const iterate = (): AsyncGenerator<unknown, unknown, unknown> =>
    heldIterator(() => source[Symbol.asyncIterator](), readers);
  return 'next' in source ? iterate() : withIteration(source, iterate, readers);
}

/**
 * Wraps an object with an iteration and other members, such as a cursor. A Proxy must return non-configurable members
 * of its target unchanged, so the target must not have the iteration as one.
 */
function withIteration(
  source: AsyncIterable<unknown>,
  iterate: () => unknown,
  readers: ResultReaders,
): object {
  let isUsed = false; // a called method may still be working
  readers.whenTooLateToRead(() => {
    if (!isUsed) readers.leaveUnread();
  });
  const isFixed = isFixedMember(source, Symbol.asyncIterator);
  const methods = new WeakMap<object, object>(); // a method read twice is the same
  const proxy: object = new Proxy(isFixed ? looseCopy(source) : source, {
    get(target, property) {
      if (property === Symbol.asyncIterator) return iterate;
      const value: unknown = Reflect.get(source, property, source);
      if (typeof value !== 'function' || property === 'constructor') return value;
      if (isFixedMember(target, property)) return value;
      const method = methods.get(value) ?? methodOf(source, value, proxy, () => (isUsed = true));
      methods.set(value, method);
      return method;
    },
    // The receiver is another object if it inherits from the proxy.
    set: (_, property, value, receiver) =>
      Reflect.set(source, property, value, receiver === proxy ? source : receiver),
    // A function can be iterable too.
    apply: (_, receiver, args): unknown => Reflect.apply(source as never, receiver, args),
  });
  return proxy;
}

/** The method, called on the source. If it returns the source, as a fluent method does, the caller gets the proxy. */
function methodOf(source: object, method: object, proxy: object, onCall: () => void): object {
  const guarded = (result: unknown): unknown => (result === source ? proxy : result);
  return new Proxy(method as (...args: unknown[]) => unknown, {
    apply(call, _, args) {
      onCall();
      const result = Reflect.apply(call, source, args);
      return isPlainPromise(result) ? result.then(guarded) : guarded(result);
    },
  });
}

/**
 * A Promise as async methods return it; any other could lose members through `then`. Node.js itself may add symbols.
 */
function isPlainPromise(value: unknown): value is Promise<unknown> {
  return (
    value instanceof Promise &&
    Object.getPrototypeOf(value) === Promise.prototype &&
    Reflect.ownKeys(value).every((name) => typeof name === 'symbol')
  );
}

/** Whether it is a data property that can be neither changed nor removed. */
function isFixedMember(object: object, name: PropertyKey): boolean {
  const member = Object.getOwnPropertyDescriptor(object, name);
  return member?.configurable === false && member.writable === false;
}

function looseCopy(object: object): object {
  const copy: object = typeof object === 'function' ? () => {} : {};
  Object.setPrototypeOf(copy, Object.getPrototypeOf(object) as object | null);
  for (const name of Reflect.ownKeys(object)) {
    const member = Object.getOwnPropertyDescriptor(object, name);
    Object.defineProperty(copy, name, { ...member, configurable: true });
  }
  return copy;
}
