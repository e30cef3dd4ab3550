import { finished, Stream, type Writable } from 'node:stream';

/** What the responses of Express and Fastify have in common. Fastify has that of Node inside. */
export interface HttpResponse {
  status(code: number): this;
  header(name: string, value: string): this;
  removeHeader(name: string): unknown;
  send(body: object): unknown;
}

/** `finished()` adds two listeners of `close`, and two of `end`, to a response. */
const LISTENERS_OF_FINISHED = 2;

interface NodeResponse {
  readonly headersSent?: boolean;
  end?(): unknown;
}

/** Whether it is too late for an answer, because one has begun, or, with Fastify, because the handler gives it. */
export function headersAreSent(response: object): boolean {
  const isHijacked = (response as { readonly sent?: unknown }).sent === true;
  return isHijacked || nodeResponse(response).headersSent === true;
}

/** Calls back when the response was sent or its client has left, also if that was before. */
export function whenResponseIsOver(response: object, callback: () => void): void {
  const node = nodeResponse(response);
  if (!(node instanceof Stream)) return;
  const most = node.getMaxListeners();
  // Others may have used up what it allows.
  if (most > 0) node.setMaxListeners(most + LISTENERS_OF_FINISHED);
  finished(node as Writable, () => callback());
}

/**
 * What Nest's `@Header` says of the body that the handler would have sent, and does not hold for another one: what it
 * is, which one it is, how it is sent, and for how long it may be kept. Most names are from IANA's registry of HTTP
 * fields.
 */
const OF_THE_BODY = [
  ...['Content-Digest', 'Content-Disposition', 'Content-Encoding', 'Content-Language'],
  ...['Content-Length', 'Content-Location', 'Content-MD5', 'Content-Range'],
  ...['Accept-Ranges', 'Digest', 'ETag', 'Last-Modified', 'Repr-Digest', 'SourceMap'],
  ...['Trailer', 'Transfer-Encoding', 'X-Accel-Redirect', 'X-Sendfile'],
  ...['Age', 'CDN-Cache-Control', 'Cloudflare-CDN-Cache-Control', 'Expires', 'Surrogate-Control'],
];

/** Sends this in the place of the body that the handler would have sent. */
export function sendJson(response: HttpResponse, body: object): void {
  for (const name of OF_THE_BODY) response.removeHeader(name);
  response.header('Cache-Control', 'no-store'); // it is true for a moment only
  response.header('Content-Type', 'application/json; charset=utf-8');
  response.send(body);
}

export function endResponse(response: object): void {
  nodeResponse(response).end?.();
}

function nodeResponse(response: object): NodeResponse {
  return (response as { readonly raw?: NodeResponse }).raw ?? response;
}
