import { finished, Stream, type Writable } from 'node:stream';

/** What the responses of Express and Fastify have in common. Fastify has that of Node inside. */
export interface HttpResponse {
  status(code: number): this;
  header(name: string, value: string): this;
  send(body: object): unknown;
}

/** `finished()` adds two listeners of `close`, and two of `end`, to a response. */
const LISTENERS_OF_FINISHED = 2;

interface NodeResponse {
  readonly headersSent?: boolean;
  end?(): unknown;
}

/** Whether it is too late for an answer, because one has begun. */
export function headersAreSent(response: object): boolean {
  return nodeResponse(response).headersSent === true;
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

/** Replaces the type of the body that the handler would have sent, such as with Nest's `@Header`. */
export function sendJson(response: HttpResponse, body: object): void {
  response.header('Content-Type', 'application/json; charset=utf-8');
  response.send(body);
}

export function endResponse(response: object): void {
  nodeResponse(response).end?.();
}

function nodeResponse(response: object): NodeResponse {
  return (response as { readonly raw?: NodeResponse }).raw ?? response;
}
