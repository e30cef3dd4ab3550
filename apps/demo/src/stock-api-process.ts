import { ChildProgram } from 'kit';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const MAIN_FILE = fileURLToPath(new URL('../../stock-api/dist/main.js', import.meta.url));
const START_LIMIT_MS = 30_000;
const STOP_LIMIT_MS = 3_000;

/** The built application in a process of its own, on a free port. */
export class StockApiProcess extends ChildProgram {
  constructor(settings: Record<string, string>) {
    super(MAIN_FILE, {
      execArgv: [],
      env: { NO_COLOR: '1', HOST: '127.0.0.1', PORT: '0', ...settings },
      stdout: 'pipe',
      stderr: 'pipe',
      endSignal: 'SIGTERM',
    });
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
    if (this.isRunning) return;
    throw new Error(`stock-api ended on its own: ${this.ending}. It said:\n${this.output}`);
  }

  /** Lets the process finish its requests. If it does not end in time, it is killed. */
  async stop(): Promise<void> {
    this.signal('SIGTERM');
    await this.endsWithin(STOP_LIMIT_MS);
  }
}

async function isHealthy(origin: string): Promise<boolean> {
  try {
    return (await fetch(new URL('/health', origin))).ok;
  } catch {
    return false; // not listening yet
  }
}
