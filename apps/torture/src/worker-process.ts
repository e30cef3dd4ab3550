import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { cleanUpAtExit } from 'dev-servers';
import { monotonicMs, type HistoryFile } from './history.js';
import type { WorkerTask } from './task.js';

/** A worker, from the outside: it can be paused, killed and asked to finish. */
export class WorkerProcess {
  readonly name: string;
  readonly #child: ChildProcess;

  private constructor(name: string, child: ChildProcess) {
    this.name = name;
    this.#child = child;
  }

  static async start(task: WorkerTask): Promise<WorkerProcess> {
    const program = fileURLToPath(new URL('./worker.js', import.meta.url));
    const child = fork(program, [JSON.stringify(task)], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    if (child.pid !== undefined)
      cleanUpAtExit({ kind: 'process', pid: child.pid, signal: 'SIGKILL' });
    await Promise.race([once(child, 'message'), failure(task.name, child)]);
    return new WorkerProcess(task.name, child);
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

  async kill(history: HistoryFile): Promise<void> {
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exited;
    history.append({ kind: 'killed', at: monotonicMs(), process: this.name });
  }

  /** Lets its callers finish what they do. @throws Error if it does not end by itself */
  async finish(limitMs: number): Promise<void> {
    if (!this.isRunning) return;
    const exited = once(this.#child, 'exit') as Promise<[number | null]>;
    this.#child.send('finish');
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), limitMs);
    const [code] = await exited;
    clearTimeout(timer);
    if (code !== 0) throw new Error(`worker ${this.name} did not end well: exit code ${code}`);
  }
}

async function failure(name: string, child: ChildProcess): Promise<never> {
  await once(child, 'exit');
  throw new Error(`worker ${name} did not start: exit code ${child.exitCode}`);
}
