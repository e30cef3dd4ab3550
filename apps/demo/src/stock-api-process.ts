import { cleanUpAtExit } from 'dev-servers';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const MAIN_FILE = fileURLToPath(new URL('../../stock-api/dist/main.js', import.meta.url));
const START_LIMIT_MS = 30_000;
const STOP_LIMIT_MS = 3_000;
const KEPT_OUTPUT = 4_000;

/** The built application in a process of its own, on a free port. */
export class StockApiProcess {
  /** How the process ended, in words, once it has ended: the signal or the exit code. */
  readonly ended: Promise<string>;
  readonly #child: ChildProcess;
  #lastWords = '';

  constructor(settings: Record<string, string>) {
    this.#child = spawn(process.execPath, [MAIN_FILE], {
      env: { ...process.env, NO_COLOR: '1', HOST: '127.0.0.1', PORT: '0', ...settings },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.ended = once(this.#child, 'close').then(() => this.#howItEnded());
    if (this.#child.pid !== undefined) {
      // This works even if this process is killed and cannot stop anything itself.
      const cancel = cleanUpAtExit({ kind: 'process', pid: this.#child.pid, signal: 'SIGTERM' });
      void this.ended.then(cancel);
    }
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', (chunk: Buffer) => {
        this.#lastWords = (this.#lastWords + chunk.toString()).slice(-KEPT_OUTPUT);
      });
    }
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** The last lines that it printed. */
  get output(): string {
    return this.#lastWords;
  }

  /** @returns its address, as soon as it reports that it is healthy. */
  async ready(): Promise<string> {
    const deadline = performance.now() + START_LIMIT_MS;
    while (performance.now() < deadline) {
      this.assertRunning();
      const origin = /listens on (http:\/\/[\w.:]+)/.exec(this.output)?.[1];
      if (origin !== undefined && (await isHealthy(origin))) return origin;
      await sleep(50);
    }
    throw new Error(
      `stock-api was not healthy within ${START_LIMIT_MS} ms. It said:\n${this.output}`,
    );
  }

  assertRunning(): void {
    const { exitCode, signalCode } = this.#child;
    if (exitCode === null && signalCode === null) return;
    throw new Error(`stock-api ended on its own: ${this.#howItEnded()}. It said:\n${this.output}`);
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Lets the process finish its requests. If it does not end in time, it is killed. */
  async stop(): Promise<void> {
    this.signal('SIGTERM');
    const killing = setTimeout(() => this.signal('SIGKILL'), STOP_LIMIT_MS);
    await this.ended;
    clearTimeout(killing);
  }

  #howItEnded(): string {
    return this.#child.signalCode ?? `exit code ${this.#child.exitCode}`;
  }
}

async function isHealthy(origin: string): Promise<boolean> {
  try {
    return (await fetch(new URL('/health', origin))).ok;
  } catch {
    return false; // not listening yet
  }
}
