import { ChildProgram } from 'kit';
import type { EntryKinds } from '../history/entry.js';
import type { HistoryFile } from '../history/history-file.js';
import { type DetachedLock, NOT_STARTED, type Order, type Report } from './task.js';

const names = new Map<number, string>();

/** The name of the worker that has, or had, this process id. */
export function nameOfWorker(pid: number): string | undefined {
  return names.get(pid);
}

/** What a worker runs. */
export interface WorkerProgram {
  readonly file: string;
  /** Options of Node. Default: those of this process. */
  readonly execArgv?: readonly string[];
}

interface Task {
  readonly name: string;
}

/** A history in which the ends of processes are written down. */
type OfProcesses = Pick<HistoryFile<Pick<EntryKinds, 'killed' | 'exited'>>, 'note'>;

/** The outside view of a worker. It can be given orders, paused and killed, and its end is written down. */
export class WorkerProcess extends ChildProgram<Order, Report> {
  readonly name: string;
  #isKilled = false;
  #isClosed = false;

  private constructor(
    program: WorkerProgram,
    task: Task,
    history: OfProcesses,
    pass: (lock: DetachedLock) => void,
  ) {
    const { file, ...options } = program;
    super(file, { args: [JSON.stringify(task)], ...options });
    this.name = task.name;
    if (this.pid !== undefined) names.set(this.pid, task.name);
    this.onMessage((report) => {
      if (report.is === 'closed') this.#isClosed = true;
      if (report.is === 'detached') pass(report);
    });
    void this.ended.then(() => this.#noteEnd(history));
  }

  /**
   * @param pass is given the locks that it detaches
   * @returns undefined if its application cannot start because of Redis
   * @throws Error if it does not start at all
   */
  static async start(
    program: WorkerProgram,
    task: Task,
    history: OfProcesses,
    pass: (lock: DetachedLock) => void = () => {},
  ): Promise<WorkerProcess | undefined> {
    const worker = new WorkerProcess(program, task, history, pass);
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

  #noteEnd(history: OfProcesses): void {
    const { name: process, exitCode: code } = this;
    if (this.#isKilled || code === NOT_STARTED) history.note('killed', { process });
    else history.note('exited', { process, code, wasClosed: this.#isClosed });
  }
}
