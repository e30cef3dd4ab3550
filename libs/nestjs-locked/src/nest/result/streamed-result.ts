import { StreamableFile } from '@nestjs/common';
import { isObservable } from 'rxjs';
import { finished, type Readable } from 'node:stream';
import { ReadableStream } from 'node:stream/web';
import { heldIterator } from './held-iterator.js';
import { heldObservable } from './held-observable.js';
import type { ManualHold } from './manual-hold.js';
import { ResultReaders } from './result-readers.js';

/** Gives the caller the result, and releases the lock when the result has ended. */
export type Carry = (hold: ManualHold) => unknown;

/**
 * What to do with a result whose work goes on after the method has returned it: an Observable, an async iterable, or a
 * stream, even inside Nest's StreamableFile. Undefined for every other result.
 *
 * If the caller never reads such a result, the lock stays held.
 */
export function streamedResult(result: unknown, label: string): Carry | undefined {
  if (typeof result !== 'object' || result === null) return undefined;
  if (isObservable(result)) return (hold) => heldObservable(result, hold, label);
  const stream = streamOf(result);
  if (stream !== undefined) {
    return (hold) => {
      endWith(stream, hold);
      return result;
    };
  }
  if (result instanceof ReadableStream) {
    return (hold) => ReadableStream.from(held(result, new ResultReaders(hold, label)));
  }
  if (isAsyncIterable(result)) return (hold) => heldIterable(result, hold, label);
  return undefined;
}

export function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return (
    typeof (value as Partial<AsyncIterable<unknown>> | null)?.[Symbol.asyncIterator] === 'function'
  );
}

/** Whether it is a stream of Node.js or of the web. */
export function isStream(result: object): boolean {
  return streamOf(result) !== undefined || result instanceof ReadableStream;
}

function heldIterable(source: AsyncIterable<unknown>, hold: ManualHold, label: string): unknown {
  const readers = new ResultReaders(hold, label);
  if ('next' in source) return held(source, readers);
  // This is not a plain iteration but an object that has one, such as a cursor. Its other members must stay. A Proxy
  // has to give what is fixed in its target as it is, so the iteration must not be.
  const isFixed = isFixedMember(source, Symbol.asyncIterator);
  const proxy: object = new Proxy(isFixed ? looseCopy(source) : source, {
    get(target, property) {
      if (property === Symbol.asyncIterator) return () => held(source, readers);
      const value: unknown = Reflect.get(source, property, source);
      if (typeof value !== 'function' || property === 'constructor') return value;
      return isFixedMember(target, property) ? value : methodOf(source, value, proxy);
    },
    // The receiver is another object if that one inherits from this one.
    set: (_, property, value, receiver) =>
      Reflect.set(source, property, value, receiver === proxy ? source : receiver),
  });
  return proxy;
}

/** The method, called on the source. If it returns the source, as a fluent one does, the caller gets the proxy. */
function methodOf(source: object, method: object, proxy: object): unknown {
  return new Proxy(method as (...args: unknown[]) => unknown, {
    apply(call, _, args) {
      const result = Reflect.apply(call, source, args);
      return result === source ? proxy : result;
    },
  });
}

/** Whether it is a value that can be neither changed nor removed. */
function isFixedMember(object: object, name: PropertyKey): boolean {
  const member = Object.getOwnPropertyDescriptor(object, name);
  return member?.configurable === false && member.writable === false;
}

function looseCopy(object: object): object {
  const copy = Object.create(Object.getPrototypeOf(object) as object | null) as object;
  for (const name of Reflect.ownKeys(object)) {
    const member = Object.getOwnPropertyDescriptor(object, name);
    Object.defineProperty(copy, name, { ...member, configurable: true });
  }
  return copy;
}

function held(
  source: AsyncIterable<unknown>,
  readers: ResultReaders,
): AsyncGenerator<unknown, unknown, unknown> {
  return heldIterator(() => source[Symbol.asyncIterator](), readers);
}

/** Recognized by its methods, because a stream may come from another copy of the stream package. */
function streamOf(result: object): Readable | undefined {
  const stream: object | undefined = result instanceof StreamableFile ? result.getStream() : result;
  const { pipe, on, read } = (stream ?? {}) as Record<string, unknown>;
  const isReadable = [pipe, on, read].every((member) => typeof member === 'function');
  return isReadable ? (stream as Readable) : undefined;
}

function endWith(stream: Readable, hold: ManualHold): void {
  finished(stream, { writable: false }, (error) => {
    // The caller already has the result, and learns of a failure from the stream itself.
    hold.end(error ? { error } : undefined).catch(() => {});
  });
}
