import type { SeededRandom } from 'kit';
import type { HistoryFile } from './history/history-file.js';
import type { Stage } from './servers/stage.js';
import { SECOND_SERVICE } from './worker/application.js';
import type { Feature, KindOfCall } from './worker/repertoire.js';
import type { Break } from './worker/sabotage.js';
import type { ServiceTask, WorkerTask } from './worker/task.js';
import { WorkerProcess } from './worker/worker-process.js';

export interface CrewOptions {
  readonly random: SeededRandom;
  readonly history: HistoryFile;
  readonly path: string;
  readonly stage: Stage;
  readonly kinds: readonly KindOfCall[];
  readonly without: readonly Feature[];
  readonly breaks: readonly Break[];
}

/** The workers of a run. A worker that ends is replaced, so that their number stays the same. */
export class Crew {
  readonly #options: CrewOptions;
  readonly #workers = new Map<string, WorkerProcess>();
  /** Workers that are being started to take the place of one that ended. */
  readonly #replacements = new Set<Promise<unknown>>();
  #started = 0;
  #isFinishing = false;

  constructor(options: CrewOptions) {
    this.#options = options;
  }

  get workers(): WorkerProcess[] {
    return [...this.#workers.values()].filter(({ isRunning }) => isRunning);
  }

  /** How many workers there have been in all. */
  get started(): number {
    return this.#started;
  }

  async start(count: number): Promise<void> {
    await Promise.all(Array.from({ length: count }, () => this.#startOne()));
  }

  /** Puts another worker in its place. */
  async replace(worker: WorkerProcess): Promise<void> {
    if (!this.#workers.delete(worker.name) || this.#isFinishing) return;
    const replacement = this.#startOne();
    this.#replacements.add(replacement);
    await replacement.finally(() => this.#replacements.delete(replacement));
  }

  /**
   * Lets all workers finish, and then lets one more ask for every key, because the others must not have left anything
   * behind.
   * @param limitMs how long they may take
   */
  async finish(limitMs: number): Promise<void> {
    this.#isFinishing = true;
    await Promise.all(this.#replacements);
    const workers = [...this.#workers.values()];
    const [sweeper] = await Promise.all([
      this.#startOne({ sweeps: true }),
      ...workers.map((worker) => worker.finish(limitMs)),
    ]);
    await sweeper.finish(limitMs);
    this.#workers.clear();
  }

  /** No worker may be left, whatever happened. */
  async stop(): Promise<void> {
    await Promise.all(this.workers.map((worker) => worker.kill()));
  }

  async #startOne(more: Partial<WorkerTask> = {}): Promise<WorkerProcess> {
    let worker: WorkerProcess | undefined;
    while (worker === undefined) {
      worker = await WorkerProcess.start({ ...this.#task(), ...more }, this.#options.history);
    }
    const started = worker;
    this.#workers.set(started.name, started);
    void started.ended.then(() => this.replace(started));
    return started;
  }

  #task(): WorkerTask {
    const { random, path, kinds, without, breaks } = this.#options;
    return {
      name: `p${++this.#started}`,
      seed: random.between(0, 2 ** 31),
      history: path,
      services: [this.#serviceTask(undefined), this.#serviceTask(SECOND_SERVICE)],
      shutdownMs: random.between(100, 1_500),
      kinds,
      without,
      // It is enough that the first workers misbehave. Those that replace one that ended behave well.
      breaks: this.#started <= 2 ? breaks : [],
      sweeps: false,
    };
  }

  #serviceTask(name: string | undefined): ServiceTask {
    const { random, stage, without } = this.#options;
    return {
      name,
      redis: stage.addressFor(random),
      connection: random.pick(
        without.includes('own-clients') ? ['url', 'options'] : ['url', 'url', 'options', 'client'],
      ),
      leaseMs: random.pick([500, 800, 800, 1_500, 2_500]),
      lingerMs: without.includes('linger') ? 0 : random.pick([0, 0, 100, 1_500]),
      localHandovers: random.pick([0, 4, 32]),
      awaitRelease: random.chance(0.7),
      callers: random.between(1, 3),
    };
  }
}
