import { HttpClient } from './http-client.js';
import { StockApiProcess } from './stock-api-process.js';

/** Several processes of the application on the same Redis and the same database. */
export class StockApiFleet {
  readonly #processes: readonly StockApiProcess[];
  #clients: readonly HttpClient[] = [];
  #isStopping = false;

  constructor(size: number, settings: Record<string, string>) {
    this.#processes = Array.from({ length: size }, () => new StockApiProcess(settings));
  }

  /** @returns what was started, one line for each process. */
  async ready(): Promise<readonly string[]> {
    const origins = await Promise.all(this.#processes.map((process) => process.ready()));
    this.#clients = origins.map((origin) => new HttpClient(origin));
    return this.#processes.map(
      (process, n) => `stock-api ${n + 1}: pid ${process.pid}, ${origins[n]}`,
    );
  }

  /** Returns the process that serves the buyer with this number. */
  clientFor(buyer: number): HttpClient {
    const client = this.#clients[buyer % this.#clients.length];
    if (client === undefined) throw new Error('The processes are not ready: await ready() first');
    return client;
  }

  /** The next requests open new connections. */
  disconnect(): void {
    for (const client of this.#clients) client.disconnect();
  }

  /** @throws Error if a process has ended, on its own or because the demo was interrupted. */
  assertRunning(): void {
    if (this.#isStopping) throw new Error('The processes are being stopped');
    for (const process of this.#processes) process.assertRunning();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const client of this.#clients) client.close();
    await Promise.all(this.#processes.map((process) => process.stop()));
  }
}
