import { Agent, request } from 'node:http';

/** This is longer than any wait for a lock. An answer that takes longer counts as none. */
const PATIENCE_MS = 40_000;

export interface HttpAnswer {
  readonly status: number;
  readonly body: string;
}

/** Exchanges JSON with one server over connections that stay open. */
export class HttpClient {
  readonly #agent = new Agent({ keepAlive: true });
  #isClosed = false;

  constructor(readonly origin: string) {}

  send(method: 'GET' | 'PUT' | 'POST', path: string, body?: object): Promise<HttpAnswer> {
    if (this.#isClosed) return Promise.reject(new Error(`The client of ${this.origin} is closed`));
    return new Promise((resolve, reject) => {
      const sending = request(
        new URL(path, this.origin),
        {
          method,
          agent: this.#agent,
          headers: { 'content-type': 'application/json' },
          signal: AbortSignal.timeout(PATIENCE_MS),
        },
        (response) => {
          const chunks: Buffer[] = [];
          response.on('data', (chunk: Buffer) => chunks.push(chunk));
          response.on('error', reject);
          response.on('end', () =>
            resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString() }),
          );
        },
      );
      sending.on('error', reject);
      sending.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }

  /** Closes the connections; the next request opens a new one. */
  disconnect(): void {
    this.#agent.destroy();
  }

  /** Ends all connections. Requests under way and later ones are rejected. */
  close(): void {
    this.#isClosed = true;
    this.disconnect();
  }
}
