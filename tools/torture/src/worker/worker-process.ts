import { cleanUpAtExit } from 'dev-servers';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { HistoryFile } from '../history/history-file.js';
import { monotonicMs } from '../history/monotonic-ms.js';
import { NOT_STARTED, type Order, type Report, type WorkerTask } from './task.js';

const names = new Map<number, string>();

/** The name of the worker that has, or had, this process id. */
export function nameOfWorker(pid: number): string | undefined {
  return names.get(pid);
}

/** The outside view of a worker. It can be given orders, paused and killed, and its end is written down. */
export class WorkerProcess {
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #history: HistoryFile;
  /** Settles when the process is gone, for whatever reason. */
  readonly exited: Promise<void>;
  #isKilled = false;
  #isClosed = false;

  private constructor(name: string, child: ChildProcess, history: HistoryFile) {
    this.name = name;
    this.#child = child;
    this.#history = history;
    child.on('message', (report: Report) => {
      if (report.is === 'closed') this.#isClosed = true;
    });
    this.exited = once(child, 'exit').then(() => this.#noteEnd());
  }

  /** @returns undefined if its application cannot start because of Redis @throws Error if it does not start at all */
  static async start(task: WorkerTask, history: HistoryFile): Promise<WorkerProcess | undefined> {
    const program = fileURLToPath(new URL('./worker.js', import.meta.url));
    const child = fork(program, [JSON.stringify(task)], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    if (child.pid !== undefined) {
      cleanUpAtExit({ kind: 'process', pid: child.pid, signal: 'SIGKILL' });
      names.set(child.pid, task.name);
    }
    const worker = new WorkerProcess(task.name, child, history);
    const ready = once(child, 'message').then(() => true);
    if (await Promise.race([ready, worker.exited.then(() => false)])) return worker;
    if (child.exitCode === NOT_STARTED) return undefined;
    throw new Error(`worker ${task.name} did not start: exit code ${child.exitCode}`);
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  pause(): void {
    this.#child.kill('SIGSTOP');
  }

  resume(): void {
    this.#child.kill('SIGCONT');
  }

  tell(order: Order): void {
    if (this.#child.connected) this.#child.send(order, () => {}); // it may be gone by now
  }

  async kill(): Promise<void> {
    this.#isKilled = true;
    this.#child.kill('SIGKILL');
    await this.exited;
  }

  /** Lets its callers finish what they do, and waits until the process ends on its own, or for too long. */
  async finish(limitMs: number): Promise<void> {
    this.tell({ do: 'finish' });
    const limit = setTimeout(() => this.#child.kill('SIGKILL'), limitMs);
    await this.exited;
    clearTimeout(limit);
  }

  #noteEnd(): void {
    const at = monotonicMs();
    const process = this.name;
    const { exitCode: code } = this.#child;
    if (this.#isKilled || code === NOT_STARTED) {
      return this.#history.append({ kind: 'killed', at, process });
    }
    this.#history.append({ kind: 'exited', at, process, code, wasClosed: this.#isClosed });
  }
}
