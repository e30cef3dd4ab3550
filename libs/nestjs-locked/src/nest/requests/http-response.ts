import { finished, Stream, type Writable } from 'node:stream';
import { isObject } from '../../core/arguments.js';

/** The common part of Express and Fastify responses. Fastify's wraps that of Node. */
export interface HttpResponse {
  status(code: number): this;
  header(name: string, value: string): this;
  getHeaders(): Readonly<Record<string, unknown>>;
  removeHeader(name: string): unknown;
  send(body: object | string): unknown;
}

/** `finished()` adds two `close` and two `end` listeners to a response. */
const LISTENERS_OF_FINISHED = 2;

interface NodeResponse {
  readonly headersSent?: boolean;
  readonly writableEnded?: boolean;
  statusMessage?: string;
  end?(): unknown;
}

/** A function that is called like an HTTP handler may receive anything. */
export function isHttpResponse(value: unknown): value is HttpResponse {
  try {
    const { getHeaders, removeHeader, header } = value as Record<keyof HttpResponse, unknown>;
    return [getHeaders, removeHeader, header].every((method) => typeof method === 'function');
  } catch {
    return false;
  }
}

/** Whether it is too late to answer: the response has begun or, with Fastify, the handler has hijacked it. */
export function headersAreSent(response: object): boolean {
  const isHijacked = (response as { readonly sent?: unknown }).sent === true;
  return isHijacked || nodeResponse(response).headersSent === true;
}

/** Whether the whole answer was handed to Node, so that the client may leave. */
export function isAnswered(response: unknown): boolean {
  return isObject(response) && nodeResponse(response).writableEnded === true;
}

/** Calls back when the response was sent or its client has disconnected, even if that has already happened. */
export function whenResponseIsOver(response: unknown, callback: () => void): void {
  const node = isObject(response) ? nodeResponse(response) : undefined;
  if (!(node instanceof Stream)) return;
  const most = node.getMaxListeners();
  // Other listeners may have reached the limit.
  if (most > 0) node.setMaxListeners(most + LISTENERS_OF_FINISHED);
  finished(node as Writable, () => callback());
}

/**
 * Headers that apply to one body only: its type, identity, signature, transfer or caching, or where the client goes
 * from it. Most names are from IANA's registry of HTTP fields.
 */
const OF_THE_BODY: ReadonlySet<string> = new Set([
  ...['content-digest', 'content-disposition', 'content-encoding', 'content-language'],
  ...['content-length', 'content-location', 'content-md5', 'content-range'],
  ...['content-transfer-encoding', 'accept-ranges', 'digest', 'etag', 'last-modified'],
  ...['repr-digest', 'signature', 'signature-input', 'sourcemap', 'trailer', 'transfer-encoding'],
  ...['age', 'expires', 'pragma', 'refresh'],
]);

/**
 * Headers that tell a cache or proxy in front of the application to store the body, or to send another one. Each
 * product has its own, so they are recognized by the beginning or end of the name.
 */
const FOR_SERVERS_IN_FRONT =
  /cache-control$|^edge-control$|^surrogate-|^x-(accel|lighttpd|litespeed|reproxy|sendfile)/;

const NOT_TO_BE_KEPT = 'no-store';

/** The headers removed from each response. */
const DROPPED = new WeakMap<HttpResponse, readonly [name: string, value: string][]>();

/**
 * Removes headers that describe the handler's body, set by the handler or by `@Header`, because another body or none is
 * sent instead. That answer is true only for the moment and must not be cached.
 */
export function dropBodyHeaders(response: HttpResponse): void {
  restoreBodyHeaders(response);
  // Only headers that are present: after `Transfer-Encoding` was removed, Node never adds it, even if it was absent.
  const dropped = Object.entries(response.getHeaders()).filter(
    ([name]) => OF_THE_BODY.has(name) || FOR_SERVERS_IN_FRONT.test(name),
  ) as [name: string, value: string][];
  for (const [name] of dropped) response.removeHeader(name);
  response.header('Cache-Control', NOT_TO_BE_KEPT);
  DROPPED.set(response, dropped);
}

/** Undoes `dropBodyHeaders`, because the handler's body is sent after all. */
export function restoreBodyHeaders(response: HttpResponse): void {
  const dropped = DROPPED.get(response);
  if (dropped === undefined) return;
  DROPPED.delete(response);
  if (response.getHeaders()['cache-control'] === NOT_TO_BE_KEPT)
    response.removeHeader('Cache-Control');
  const present = response.getHeaders(); // headers set meanwhile stay
  for (const [name, value] of dropped) if (!(name in present)) response.header(name, value);
}

/** Sends this instead of the handler's body. @param type without the encoding, which is UTF-8 */
export function sendBody(response: HttpResponse, type: string, body: object | string): void {
  dropBodyHeaders(response);
  delete nodeResponse(response).statusMessage; // it belongs to the status of the handler
  response.header('Content-Type', `${type}; charset=utf-8`);
  response.send(body);
}

export function endResponse(response: object): void {
  nodeResponse(response).end?.();
}

function nodeResponse(response: object): NodeResponse {
  return (response as { readonly raw?: NodeResponse }).raw ?? response;
}
