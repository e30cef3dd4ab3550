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
  /** How long the event loop has turned since the clocks were set or stood still. */
  #turnedMs = Infinity;
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

  /**
   * Whether the clocks were set or stood still so recently that the event loop has turned for no more than `ms` since:
   * while it stands still, nobody can learn anything.
   */
  wasDisturbedWithin(ms: number): boolean {
    return this.#turnedMs <= ms;
  }

  /** The event loop has turned for this long. */
  loopTurned(ms: number): void {
    this.#turnedMs += ms;
  }

  stepWall(ms: number): void {
    this.#turnedMs = 0;
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
      this.#turnedMs = 0;
      this.#leastGapMs = Infinity;
    }
    return now - this.#suspendedMs;
  }
}

function usedMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
