import type { SeededRandom } from 'kit';
import type { VirtualTime } from '../world/virtual-time.js';

interface Due {
  readonly work: () => void;
  readonly isTimer: boolean;
}

/**
 * What runs on a machine: a process of the application, or a server. It can be paused, so that it does everything that
 * was due later, and it can be killed.
 */
export class Machine {
  #isPaused = false;
  #isDead = false;
  /** Whether it continues, and what was due meanwhile has not all run. */
  #isCatchingUp = false;
  #due: Due[] = [];

  constructor(
    readonly name: string,
    readonly time: VirtualTime,
    readonly random: SeededRandom,
  ) {}

  get isPaused(): boolean {
    return this.#isPaused;
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  /** Runs it now, or when the machine continues, or never. */
  run(work: () => void, isTimer = false): void {
    if (this.#isDead) return;
    if (this.#isPaused || this.#isCatchingUp) this.#due.push({ work, isTimer });
    else work();
  }

  /** @returns a function that cancels it */
  after(delayMs: number, work: () => void): () => void {
    let isCancelled = false;
    const cancel = this.time.plan(delayMs, () => this.run(() => isCancelled || work(), true));
    return () => {
      isCancelled = true;
      cancel();
    };
  }

  pause(): void {
    this.#isPaused = true;
  }

  /**
   * What was due runs, each in a turn of its own. Node continues where it was: it reads its sockets first, or runs its
   * timers.
   */
  resume(): void {
    this.#isPaused = false;
    const areTimersFirst = this.random.chance(0.5);
    const [timers, others] = [true, false].map((wanted) =>
      this.#due.filter(({ isTimer }) => isTimer === wanted),
    ) as [Due[], Due[]];
    this.#due = areTimersFirst ? [...timers, ...others] : [...others, ...timers];
    if (this.#isCatchingUp) return;
    this.#isCatchingUp = true;
    const next = (): void => {
      const due = this.#isPaused || this.#isDead ? undefined : this.#due.shift();
      this.#isCatchingUp = due !== undefined;
      if (due === undefined) return;
      due.work();
      this.time.plan(0, next);
    };
    next();
  }

  kill(): void {
    this.#isDead = true;
    this.#due = [];
  }
}
