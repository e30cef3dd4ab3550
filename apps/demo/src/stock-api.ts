import { ChildProgram } from 'kit';
import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const MAIN_FILE = fileURLToPath(new URL('../../stock-api/dist/main.js', import.meta.url));
/** Three start at a time, which takes seconds, and a minute on a machine that is busy otherwise. */
const START_LIMIT_MS = 120_000;
const STOP_LIMIT_MS = 3_000;
/** This is longer than any wait for a lock. */
const PATIENCE_MS = 40_000;

export interface HttpAnswer {
  readonly status: number;
  readonly body: string;
}

/** The built application in a process of its own, on a free port, and connections to it that stay open. */
export class StockApi extends ChildProgram {
  readonly #agent = new Agent({ keepAlive: true });
  #origin = '';
  #isStopping = false;

  constructor(settings: Record<string, string>) {
    super(MAIN_FILE, {
      execArgv: [],
      env: { NO_COLOR: '1', HOST: '127.0.0.1', PORT: '0', ...settings },
      stdout: 'pipe',
      stderr: 'pipe',
      endSignal: 'SIGTERM',
    });
  }

  /** @returns its address, as soon as it reports that it is healthy */
  async ready(): Promise<string> {
    const deadline = performance.now() + START_LIMIT_MS;
    while (performance.now() < deadline) {
      this.assertRunning();
      this.#origin = /listens on (http:\/\/[\w.:]+)/.exec(this.output)?.[1] ?? '';
      if (this.#origin !== '' && (await this.#isHealthy())) return this.#origin;
      await sleep(50);
    }
    throw new Error(
      `stock-api was not healthy within ${START_LIMIT_MS} ms. It said:\n${this.output}`,
    );
  }

  get origin(): string {
    return this.#origin;
  }

  /** Exchanges JSON with it. @param patienceMs an answer that takes longer counts as none */
  async send(
    method: 'GET' | 'PUT' | 'POST',
    path: string,
    body?: object,
    patienceMs = PATIENCE_MS,
  ): Promise<HttpAnswer> {
    if (this.#isStopping) throw new Error('stock-api is being stopped');
    const sending = request(new URL(path, this.#origin), {
      method,
      agent: this.#agent,
      headers: { 'content-type': 'application/json' },
      signal: AbortSignal.timeout(patienceMs),
    });
    sending.on('error', () => {}); // who waits for the answer hears of it
    sending.end(body === undefined ? undefined : JSON.stringify(body));
    const [response] = (await once(sending, 'response')) as [IncomingMessage];
    return { status: response.statusCode ?? 0, body: await text(response) };
  }

  /** The next request opens a new connection. */
  closeConnections(): void {
    this.#agent.destroy();
  }

  /** @throws Error if it has ended, on its own or because the demo was interrupted */
  assertRunning(): void {
    if (this.#isStopping) throw new Error('stock-api is being stopped');
    if (this.isRunning) return;
    throw new Error(`stock-api ended on its own: ${this.ending}. It said:\n${this.output}`);
  }

  /** Ends all connections, and lets the process finish. If it does not end in time, it is killed. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.closeConnections();
    this.signal('SIGTERM');
    await this.endsWithin(STOP_LIMIT_MS);
  }

  async #isHealthy(): Promise<boolean> {
    const answer = await this.send('GET', '/health').catch(() => undefined); // not listening yet
    return answer?.status === 200;
  }
}
