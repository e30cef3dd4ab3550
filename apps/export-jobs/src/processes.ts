import { ChildProgram } from 'kit';
import { fileURLToPath } from 'node:url';

const STOP_LIMIT_MS = 10_000;

/** The processes of the built application: `api` and `worker`. */
export class Processes {
  readonly #redisUrl: string;
  readonly #hear: (name: string, line: string) => void;
  readonly #running = new Map<string, ChildProgram>();
  #apiUrl: string | undefined;

  /** @param hear is given every line that a process prints */
  constructor(redisUrl: string, hear: (name: string, line: string) => void) {
    this.#redisUrl = redisUrl;
    this.#hear = hear;
  }

  /** The address of the API, as its log says. */
  get apiUrl(): string | undefined {
    return this.#apiUrl;
  }

  start(name: 'api' | 'worker'): void {
    const hear = (line: string): void => {
      this.#apiUrl = /^The API listens on (\S+)$/.exec(line)?.[1] ?? this.#apiUrl;
      this.#hear(name, line);
    };
    const env = { NO_COLOR: '1', REDIS_URL: this.#redisUrl };
    const options = { env, stdout: 'pipe', stderr: 'pipe', hear, endSignal: 'SIGTERM' } as const;
    const file = fileURLToPath(new URL(`../dist/${name}.js`, import.meta.url));
    this.#running.set(name, new ChildProgram(file, options));
  }

  /** Asks the API to export an account. */
  export(account: string): Promise<Response> {
    return fetch(`${this.#apiUrl}/accounts/${account}/export`, { method: 'POST' });
  }

  async end(name: 'api' | 'worker', signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const process = this.#running.get(name);
    this.#running.delete(name);
    process?.signal(signal);
    await process?.endsWithin(STOP_LIMIT_MS);
  }

  async stop(): Promise<void> {
    await Promise.all([this.end('api', 'SIGTERM'), this.end('worker', 'SIGTERM')]);
  }
}
