const LIVE_EVERY_MS = 100;
const PLAIN_EVERY_MS = 2_000;

/** Tells what the demo is doing: on a terminal in one line that changes, elsewhere in plain lines. */
export class Progress {
  readonly #startedAt = performance.now();
  readonly #isLive = process.stdout.isTTY;

  say(text: string): void {
    this.#clearLine();
    console.log(this.#withTime(text));
  }

  /** Shows `describe()` again and again until `work` has settled. */
  async during<T>(describe: () => string, work: Promise<T>): Promise<T> {
    const timer = setInterval(
      () => this.#show(describe()),
      this.#isLive ? LIVE_EVERY_MS : PLAIN_EVERY_MS,
    );
    try {
      return await work;
    } finally {
      clearInterval(timer);
      this.#clearLine();
    }
  }

  #show(text: string): void {
    if (this.#isLive) process.stdout.write(`\r\x1b[2K${this.#withTime(text)}`);
    else console.log(this.#withTime(text));
  }

  #clearLine(): void {
    if (this.#isLive) process.stdout.write('\r\x1b[2K');
  }

  #withTime(text: string): string {
    const seconds = (performance.now() - this.#startedAt) / 1000;
    return `${seconds.toFixed(1).padStart(5)} s  ${text}`;
  }
}
