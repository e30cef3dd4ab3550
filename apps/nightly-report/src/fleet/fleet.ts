import type { FleetOptions } from './options.js';
import { ReplicaProcess } from './replica-process.js';
import { Tally } from './tally.js';

const REPLICAS = ['A', 'B', 'C'] as const;

/** Three processes of the application on the same Redis. Their clocks may be apart, and one of them may be killed. */
export class Fleet {
  readonly tally = new Tally();
  readonly #running = new Map<string, ReplicaProcess>();
  #isStopping = false;
  #isKillDue: boolean;
  #onEnough: () => void = () => {};

  constructor(
    private readonly redisUrl: string,
    private readonly options: FleetOptions,
  ) {
    this.#isKillDue = options.kill;
  }

  async start(): Promise<void> {
    for (const [n, name] of REPLICAS.entries()) this.#start(name, n * this.options.skewMs);
    await Promise.all([...this.#running.values()].map((replica) => replica.ready()));
  }

  /** Resolves when the wanted number of ticks is over; with 0, never. */
  enough(): Promise<void> {
    return new Promise((resolve) => (this.#onEnough = resolve));
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all([...this.#running.values()].map((replica) => replica.stop()));
  }

  #start(name: string, offsetMs: number): void {
    const replica = new ReplicaProcess(
      {
        REDIS_URL: this.redisUrl,
        REPORT_IF_KILLED: this.options.ifKilled,
        ...(offsetMs > 0 && { CLOCK_OFFSET_MS: String(offsetMs) }),
      },
      (line) => this.#hear(name, offsetMs, line),
    );
    this.#running.set(name, replica);
  }

  #hear(name: string, offsetMs: number, line: string): void {
    this.tally.hear(name, line);
    const [report] = /report \S+Z (?:begins|is done)$/.exec(line) ?? [];
    if (report !== undefined) console.log(`${name}: ${report}`);
    else if (/ERROR|WARN/.test(line)) console.log(`${name}: ${line}`);
    const { ticks } = this.tally;
    if (this.options.ticks > 0 && ticks.length > this.options.ticks) this.#onEnough();
    if (this.#isKillDue && ticks.length >= 2 && line.endsWith('begins')) {
      this.#isKillDue = false;
      void this.#killAndReplace(name, offsetMs);
    }
  }

  async #killAndReplace(name: string, offsetMs: number): Promise<void> {
    await this.#running.get(name)?.kill();
    console.log(`${name}: killed while it wrote its report`);
    if (this.#isStopping) return;
    this.#start(name, offsetMs);
  }
}
