import { heldIterator } from './held-iterator.js';
import type { ResultReaders } from './result-readers.js';

/** Checks the name only, because Node loads the class on first use, which takes a while. */
export function isWebStream(value: unknown): value is ReadableStream {
  return Object.prototype.toString.call(value) === '[object ReadableStream]';
}

/** A web stream that counts as a reader until it has ended or is cancelled. A byte stream remains one. */
export function heldWebStream(source: ReadableStream, readers: ResultReaders): ReadableStream {
  const isOfBytes = isByteStream(source); // checked before the source is locked to a reader
  const chunks = heldIterator(() => chunksOf(source), readers);
  return isOfBytes ? byteStream(chunks) : ReadableStream.from(chunks);
}

/** The stream's own iterator would answer `return()` only after the chunk that it waits for. */
function chunksOf(source: ReadableStream): AsyncIterator<unknown, unknown, unknown> {
  const reader = source.getReader();
  return {
    next: () => reader.read(),
    async return(reason) {
      await reader.cancel(reason);
      return { done: true, value: undefined };
    },
  };
}

/** Only a byte stream accepts a BYOB reader; there is no other way to find out. */
function isByteStream(stream: ReadableStream): boolean {
  try {
    stream.getReader({ mode: 'byob' }).releaseLock();
    return true;
  } catch {
    return false;
  }
}

function byteStream(chunks: AsyncGenerator<unknown, unknown, unknown>): ReadableStream {
  return new ReadableStream({
    type: 'bytes',
    async pull(controller) {
      const { done, value } = await chunks.next();
      if (done !== true) {
        controller.enqueue(value as Uint8Array);
        return;
      }
      controller.close();
      controller.byobRequest?.respond(0); // ends a pending BYOB read
    },
    async cancel(reason) {
      await chunks.return(reason);
    },
  });
}
