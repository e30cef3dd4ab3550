import type { SeededRandom } from 'kit';
import type { VirtualTime } from '../world/virtual-time.js';

/** One direction of a connection. Like TCP, it keeps the order, and delivers late rather than twice or not at all. */
export class Link {
  readonly #time: VirtualTime;
  readonly #latency: () => number;
  /** When the last message arrives. */
  #lastAt = 0;
  #isCut = false;
  #isHeld = false;
  #held: (() => void)[] = [];

  constructor(time: VirtualTime, latency: () => number) {
    this.#time = time;
    this.#latency = latency;
  }

  send(deliver: () => void): void {
    if (this.#isCut) return;
    if (this.#isHeld) return void this.#held.push(deliver);
    const at = Math.max(this.#time.now + this.#latency(), this.#lastAt);
    this.#lastAt = at;
    this.#time.planAt(at, () => {
      if (!this.#isCut) deliver();
    });
  }

  /** Nothing is delivered until `release`. */
  hold(): void {
    this.#isHeld = true;
  }

  release(): void {
    this.#isHeld = false;
    for (const deliver of this.#held.splice(0)) this.send(deliver);
  }

  /** What is on its way is lost. */
  cut(): void {
    this.#isCut = true;
    this.#held = [];
  }
}

/** Usually half a millisecond; now and then as long as a lost packet takes to be sent again. */
export function latencyOf(random: SeededRandom): () => number {
  return () => {
    if (random.chance(0.01)) return 200 + random.next() * 100;
    return random.chance(0.05) ? 5 + random.next() * 40 : 0.1 + random.next();
  };
}
