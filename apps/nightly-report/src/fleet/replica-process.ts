import { cleanUpAtExit } from 'dev-servers';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const REPLICA_FILE = fileURLToPath(new URL('../../dist/replica.js', import.meta.url));
const CLOCK_FILE = new URL('../../dist/fleet/clock-offset.js', import.meta.url).href;
const START_LIMIT_MS = 30_000;
const STOP_LIMIT_MS = 5_000;

/** The built application in a process of its own. */
export class ReplicaProcess {
  /** How the process ended, in words, once it has ended: the signal or the exit code. */
  readonly ended: Promise<string>;
  readonly #child: ChildProcess;
  readonly #lines: string[] = [];

  /** @param hear is given every line that the process prints */
  constructor(settings: Record<string, string>, hear: (line: string) => void = () => {}) {
    const clock = settings['CLOCK_OFFSET_MS'] === undefined ? [] : ['--import', CLOCK_FILE];
    this.#child = spawn(process.execPath, [...clock, REPLICA_FILE], {
      env: { ...process.env, NO_COLOR: '1', ...settings },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.ended = once(this.#child, 'close').then(
      () => this.#child.signalCode ?? `exit code ${this.#child.exitCode}`,
    );
    if (this.#child.pid !== undefined) {
      // This works even if this process is killed and cannot stop anything itself.
      const cancel = cleanUpAtExit({ kind: 'process', pid: this.#child.pid, signal: 'SIGTERM' });
      void this.ended.then(cancel);
    }
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      if (stream === null) continue;
      createInterface(stream).on('line', (line) => {
        this.#lines.push(line);
        hear(line);
      });
    }
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get output(): string {
    return this.#lines.join('\n');
  }

  /** Waits until it has started. */
  async ready(): Promise<void> {
    const deadline = performance.now() + START_LIMIT_MS;
    while (!this.output.includes('waits for its ticks')) {
      const { exitCode, signalCode } = this.#child;
      if (exitCode !== null || signalCode !== null || performance.now() > deadline) {
        throw new Error(`nightly-report did not start. It said:\n${this.output}`);
      }
      await sleep(50);
    }
  }

  /** Ends it without warning, in the middle of whatever it does. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.ended;
  }

  /** Lets the process finish its report. If it does not end in time, it is killed. */
  async stop(): Promise<void> {
    this.#child.kill('SIGTERM');
    const killing = setTimeout(() => this.#child.kill('SIGKILL'), STOP_LIMIT_MS);
    await this.ended;
    clearTimeout(killing);
  }
}
