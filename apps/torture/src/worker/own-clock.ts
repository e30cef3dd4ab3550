const realNow = performance.now.bind(performance);
const realWallNow = Date.now.bind(Date);

/** A process that hears of its suspend later than this has been suspended already. */
const EXPECTED_WITHIN_MS = 1_000;

/**
 * The clocks that this process reads: the wall clock, which an operator can set, and the monotonic clock, which stands
 * still while the machine is suspended. The tool itself reads neither of them.
 */
export class OwnClock {
  #wallOffsetMs = 0;
  #disturbedAt = -Infinity;
  #suspendedMs = 0;
  /** If nobody has read the clock for this long, the process was suspended. */
  #leastGapMs = Infinity;
  #expectedUntil = -Infinity;
  #lastRead = realNow();
  /** How much of the processor it had used by then. */
  #usedMs = 0;

  install(): void {
    performance.now = () => this.#now();
    Date.now = () => realWallNow() + this.#wallOffsetMs;
  }

  wasDisturbedWithin(ms: number): boolean {
    return realNow() - this.#disturbedAt <= ms;
  }

  stepWall(ms: number): void {
    this.#disturbedAt = realNow();
    this.#wallOffsetMs += ms;
  }

  /** The process is about to be stopped for at least this long, during which its monotonic clock stands still. */
  expectSuspend(leastMs: number): void {
    this.#lastRead = realNow();
    this.#leastGapMs = leastMs;
    this.#expectedUntil = this.#lastRead + EXPECTED_WITHIN_MS;
    this.#usedMs = usedMs();
  }

  #now(): number {
    const now = realNow();
    const gapMs = now - this.#lastRead;
    const isExpected = gapMs >= this.#leastGapMs && this.#lastRead <= this.#expectedUntil;
    this.#lastRead = now;
    // A process that computes for so long reads no clock either.
    if (isExpected && usedMs() - this.#usedMs < gapMs / 2) {
      this.#suspendedMs += gapMs;
      this.#disturbedAt = now;
      this.#leastGapMs = Infinity;
    }
    return now - this.#suspendedMs;
  }
}

function usedMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
