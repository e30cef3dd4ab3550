import { ChildProgram } from 'kit';
import { fileURLToPath } from 'node:url';
import type { HistoryFile } from '../history/history-file.js';
import { monotonicMs } from '../history/monotonic-ms.js';
import { NOT_STARTED, type Order, type Report, type WorkerTask } from './task.js';

const PROGRAM = fileURLToPath(new URL('./worker.js', import.meta.url));
const names = new Map<number, string>();

/** The name of the worker that has, or had, this process id. */
export function nameOfWorker(pid: number): string | undefined {
  return names.get(pid);
}

/** The outside view of a worker. It can be given orders, paused and killed, and its end is written down. */
export class WorkerProcess extends ChildProgram<Order, Report> {
  readonly name: string;
  #isKilled = false;
  #isClosed = false;

  private constructor(task: WorkerTask, history: HistoryFile) {
    super(PROGRAM, { args: [JSON.stringify(task)] });
    this.name = task.name;
    if (this.pid !== undefined) names.set(this.pid, task.name);
    this.onMessage((report) => {
      if (report.is === 'closed') this.#isClosed = true;
    });
    void this.ended.then(() => this.#noteEnd(history));
  }

  /** @returns undefined if its application cannot start because of Redis @throws Error if it does not start at all */
  static async start(task: WorkerTask, history: HistoryFile): Promise<WorkerProcess | undefined> {
    const worker = new WorkerProcess(task, history);
    try {
      await worker.nextMessage();
      return worker;
    } catch (error) {
      if (worker.exitCode === NOT_STARTED) return undefined;
      throw new Error(`worker ${task.name} did not start`, { cause: error });
    }
  }

  override async kill(): Promise<void> {
    this.#isKilled = true;
    await super.kill();
  }

  /** Lets its callers finish what they do, and waits until the process ends on its own, or for too long. */
  async finish(limitMs: number): Promise<void> {
    this.tell({ do: 'finish' });
    await this.endsWithin(limitMs);
  }

  #noteEnd(history: HistoryFile): void {
    const at = monotonicMs();
    const { name: process, exitCode: code } = this;
    if (this.#isKilled || code === NOT_STARTED)
      return history.append({ kind: 'killed', at, process });
    history.append({ kind: 'exited', at, process, code, wasClosed: this.#isClosed });
  }
}
