import { finished, Stream, type Writable } from 'node:stream';
import { isObject } from '../../core/arguments.js';

/** What the responses of Express and Fastify have in common. Fastify has that of Node inside. */
export interface HttpResponse {
  status(code: number): this;
  header(name: string, value: string): this;
  getHeaders(): Readonly<Record<string, unknown>>;
  removeHeader(name: string): unknown;
  send(body: object): unknown;
}

/** `finished()` adds two listeners of `close`, and two of `end`, to a response. */
const LISTENERS_OF_FINISHED = 2;

interface NodeResponse {
  readonly headersSent?: boolean;
  statusMessage?: string;
  end?(): unknown;
}

/** A function that is called like a handler over HTTP may be given anything. */
export function isHttpResponse(value: unknown): value is HttpResponse {
  try {
    const { getHeaders, removeHeader, header } = value as Record<keyof HttpResponse, unknown>;
    return [getHeaders, removeHeader, header].every((method) => typeof method === 'function');
  } catch {
    return false;
  }
}

/** Whether it is too late for an answer, because one has begun, or, with Fastify, because the handler gives it. */
export function headersAreSent(response: object): boolean {
  const isHijacked = (response as { readonly sent?: unknown }).sent === true;
  return isHijacked || nodeResponse(response).headersSent === true;
}

/** Calls back when the response was sent or its client has left, also if that was before. */
export function whenResponseIsOver(response: unknown, callback: () => void): void {
  const node = isObject(response) ? nodeResponse(response) : undefined;
  if (!(node instanceof Stream)) return;
  const most = node.getMaxListeners();
  // Others may have used up what it allows.
  if (most > 0) node.setMaxListeners(most + LISTENERS_OF_FINISHED);
  finished(node as Writable, () => callback());
}

/**
 * Headers that hold for one body only: they say what it is, which one it is, who has signed it, how it is sent, or for
 * how long it may be kept, or they lead the client on from it. Most names are from IANA's registry of HTTP fields.
 */
const OF_THE_BODY: ReadonlySet<string> = new Set([
  ...['content-digest', 'content-disposition', 'content-encoding', 'content-language'],
  ...['content-length', 'content-location', 'content-md5', 'content-range'],
  ...['content-transfer-encoding', 'accept-ranges', 'digest', 'etag', 'last-modified'],
  ...['repr-digest', 'signature', 'signature-input', 'sourcemap', 'trailer', 'transfer-encoding'],
  ...['age', 'expires', 'pragma', 'refresh'],
]);

/**
 * Headers that tell a cache or server in front of the application to keep the body, or to send another one. Each
 * product has its own, so they are recognized by how their names begin or end.
 */
const FOR_SERVERS_IN_FRONT =
  /cache-control$|^edge-control$|^surrogate-|^x-(accel|lighttpd|litespeed|reproxy|sendfile)/;

const NOT_TO_BE_KEPT = 'no-store';

/** What was removed from each response. */
const DROPPED = new WeakMap<HttpResponse, readonly [name: string, value: string][]>();

/**
 * Removes what the handler, or Nest's `@Header`, says of the body of the handler, because another one, or none, is sent
 * in its place. That one must not be kept, because it is true for a moment only.
 */
export function dropBodyHeaders(response: HttpResponse): void {
  restoreBodyHeaders(response);
  // Only what is there: once `Transfer-Encoding` was removed, Node never adds it, even if it was not there.
  const dropped = Object.entries(response.getHeaders()).filter(
    ([name]) => OF_THE_BODY.has(name) || FOR_SERVERS_IN_FRONT.test(name),
  ) as [name: string, value: string][];
  for (const [name] of dropped) response.removeHeader(name);
  response.header('Cache-Control', NOT_TO_BE_KEPT);
  DROPPED.set(response, dropped);
}

/** The body of the handler is sent after all. */
export function restoreBodyHeaders(response: HttpResponse): void {
  const dropped = DROPPED.get(response);
  if (dropped === undefined) return;
  DROPPED.delete(response);
  if (response.getHeaders()['cache-control'] === NOT_TO_BE_KEPT)
    response.removeHeader('Cache-Control');
  const present = response.getHeaders(); // what was set meanwhile stays
  for (const [name, value] of dropped) if (!(name in present)) response.header(name, value);
}

/** Sends this in the place of the body that the handler would have sent. */
export function sendJson(response: HttpResponse, body: object): void {
  dropBodyHeaders(response);
  delete nodeResponse(response).statusMessage; // it belongs to the status of the handler
  response.header('Content-Type', 'application/json; charset=utf-8');
  response.send(body);
}

export function endResponse(response: object): void {
  nodeResponse(response).end?.();
}

function nodeResponse(response: object): NodeResponse {
  return (response as { readonly raw?: NodeResponse }).raw ?? response;
}
