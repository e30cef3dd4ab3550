import type { WorkerProcess } from './worker/worker-process.js';

/** Starts a worker. @returns undefined if its application cannot start because of Redis */
export type StartWorker = (index: number) => Promise<WorkerProcess | undefined>;

/** The workers of a run. A worker that ends is replaced, so that their number stays the same. */
export class Crew {
  readonly #startWorker: StartWorker;
  readonly #workers = new Set<WorkerProcess>();
  /** Workers that are being started to take the place of one that ended. */
  readonly #replacements = new Set<Promise<unknown>>();
  #started = 0;
  #isFinishing = false;

  constructor(startWorker: StartWorker) {
    this.#startWorker = startWorker;
  }

  get workers(): WorkerProcess[] {
    return [...this.#workers].filter(({ isRunning }) => isRunning);
  }

  /** How many workers there have been in all. */
  get started(): number {
    return this.#started;
  }

  async start(count: number): Promise<void> {
    await Promise.all(Array.from({ length: count }, () => this.#startOne(this.#startWorker)));
  }

  /** Puts another worker in its place. */
  async replace(worker: WorkerProcess): Promise<void> {
    if (!this.#workers.delete(worker) || this.#isFinishing) return;
    const replacement = this.#startOne(this.#startWorker);
    this.#replacements.add(replacement);
    await replacement.finally(() => this.#replacements.delete(replacement));
  }

  /**
   * Lets all workers finish.
   *
   * @param limitMs how long they may take
   * @param startLast starts one that is to finish after all the others
   */
  async finish(limitMs: number, startLast?: StartWorker): Promise<void> {
    this.#isFinishing = true;
    await Promise.all(this.#replacements);
    const workers = [...this.#workers];
    const [last] = await Promise.all([
      startLast && this.#startOne(startLast),
      ...workers.map((worker) => worker.finish(limitMs)),
    ]);
    await last?.finish(limitMs);
  }

  /** No worker may be left, whatever happened. */
  async stop(): Promise<void> {
    this.#isFinishing = true;
    await Promise.all(this.workers.map((worker) => worker.kill()));
  }

  async #startOne(startWorker: StartWorker): Promise<WorkerProcess> {
    let worker: WorkerProcess | undefined;
    while (worker === undefined) worker = await startWorker(++this.#started);
    const started = worker;
    this.#workers.add(started);
    void started.ended.then(() => this.replace(started));
    return started;
  }
}
