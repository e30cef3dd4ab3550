import { heldIterator } from './held-iterator.js';
import type { ResultReaders } from './result-readers.js';

/** Looks at its name only: Node loads the class when it is first used, which takes a while. */
export function isWebStream(value: unknown): value is ReadableStream {
  return Object.prototype.toString.call(value) === '[object ReadableStream]';
}

/** A stream of the web that counts as a reader until it has ended or is cancelled. A byte stream stays one. */
export function heldWebStream(source: ReadableStream, readers: ResultReaders): ReadableStream {
  const isOfBytes = isByteStream(source); // asked before the source has its reader
  const chunks = heldIterator(() => chunksOf(source), readers);
  return isOfBytes ? byteStream(chunks) : ReadableStream.from(chunks);
}

/** The iterator of the stream itself would do, but it answers `return()` only after the chunk that it waits for. */
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

/** Only such a stream lets its reader bring a buffer. There is no other way to find out. */
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
      controller.byobRequest?.respond(0); // the end, for a reader that waits with its own buffer
    },
    async cancel(reason) {
      await chunks.return(reason);
    },
  });
}
