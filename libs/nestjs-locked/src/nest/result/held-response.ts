import { isWebStream } from './held-web-stream.js';

/**
 * The body of a web `Response`, if it is a stream that can still be read. Undefined for a response of `fetch()`: its
 * body comes from another server, and a caller that needs only the status never reads it.
 */
export function streamingBodyOf(result: object): ReadableStream | undefined {
  if (Object.prototype.toString.call(result) !== '[object Response]') return undefined;
  const { type, body } = result as { readonly type: unknown; readonly body: unknown };
  if (type !== 'default') return undefined;
  return isWebStream(body) && !body.locked ? body : undefined;
}

/** A `Response` with the same status and headers but another body. */
export function heldResponse(source: Response, body: ReadableStream): Response {
  const { status, statusText, headers } = source;
  return new Response(body as ConstructorParameters<typeof Response>[0], {
    status,
    statusText,
    headers,
  });
}
