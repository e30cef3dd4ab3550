/** What the responses of Express and Fastify have in common. Fastify has that of Node inside. */
export interface HttpResponse {
  status(code: number): this;
  header(name: string, value: string): this;
  send(body: object): unknown;
}

interface NodeResponse {
  readonly headersSent?: boolean;
  end?(): unknown;
}

/** Whether it is too late for an answer, because one has begun. */
export function headersAreSent(response: object): boolean {
  return nodeResponse(response).headersSent === true;
}

export function endResponse(response: object): void {
  nodeResponse(response).end?.();
}

function nodeResponse(response: object): NodeResponse {
  return (response as { readonly raw?: NodeResponse }).raw ?? response;
}
