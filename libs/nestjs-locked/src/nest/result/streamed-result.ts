import { StreamableFile } from '@nestjs/common';
import { isObservable } from 'rxjs';
import { finished, type Readable } from 'node:stream';
import { isAsyncIterable } from './async-iterable.js';
import { answersEveryName } from './auto-mock.js';
import { heldIterable } from './held-iterable.js';
import { heldObservable } from './held-observable.js';
import { heldResponse, streamingBodyOf } from './held-response.js';
import { heldWebStream, isWebStream } from './held-web-stream.js';
import type { ManualHold } from './manual-hold.js';
import { ResultReaders } from './result-readers.js';

/** Returns the result for the caller, and releases the lock when the result has ended. */
export type Carry = (hold: ManualHold) => unknown;

/**
 * Handles a result whose work continues after the method has returned: an Observable, an async iterable, or a stream,
 * even inside Nest's StreamableFile or a web `Response`. Undefined for any other result.
 *
 * If the caller never reads such a result, the lock stays held.
 */
export function streamedResult(result: unknown, callSite: string): Carry | undefined {
  if (!isObject(result)) return undefined;
  try {
    return answersEveryName(result) ? undefined : carryOf(result, callSite);
  } catch {
    return undefined; // its members cannot be read, so nobody reads it as a stream; the work has succeeded
  }
}

function carryOf(result: object, callSite: string): Carry | undefined {
  if (isObservable(result)) return (hold) => heldObservable(result, hold, callSite);
  const stream = streamOf(result);
  if (stream !== undefined) {
    return (hold) => {
      runUnder(stream, hold);
      endWith(stream, hold);
      return result;
    };
  }
  if (isWebStream(result)) {
    return (hold) => heldWebStream(result, new ResultReaders(hold, callSite));
  }
  const body = streamingBodyOf(result);
  if (body !== undefined) {
    return (hold) =>
      heldResponse(result as Response, heldWebStream(body, new ResultReaders(hold, callSite)));
  }
  if (isAsyncIterable(result)) return (hold) => heldIterable(result, hold, callSite);
  return undefined;
}

function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}

/** Whether it is a stream of Node.js or of the web. */
export function isStream(result: object): boolean {
  return streamOf(result) !== undefined || isWebStream(result);
}

/**
 * Recognized by its members, because a stream may come from another copy of the stream package. Other objects may have
 * such methods too, but only streams have a boolean `readable`.
 */
function streamOf(result: object): Readable | undefined {
  const stream: object | undefined = result instanceof StreamableFile ? result.getStream() : result;
  const { pipe, on, read, readable } = (stream ?? {}) as Record<string, unknown>;
  const canBeRead = [pipe, on, read].every((member) => typeof member === 'function');
  return canBeRead && typeof readable === 'boolean' ? (stream as Readable) : undefined;
}

/** Makes the stream read and clean up under the hold, whoever reads or destroys it. */
function runUnder(stream: Readable, hold: ManualHold): void {
  for (const name of ['_read', '_destroy'] as const) {
    const method: unknown = Reflect.get(stream, name);
    if (typeof method !== 'function') continue; // another implementation of streams
    Reflect.set(stream, name, (...args: unknown[]): unknown =>
      hold.run(() => Reflect.apply(method, stream, args) as unknown),
    );
  }
}

function endWith(stream: Readable, hold: ManualHold): void {
  finished(stream, { writable: false }, (error) => {
    // The caller already has the result, and the stream itself reports a failure.
    hold.end(error ? { error } : undefined).catch(() => {});
  });
}
