import type { SeededRandom } from 'kit';
import type { Reply } from '../server/reply.js';
import type { VirtualTime } from '../world/virtual-time.js';

/** What a message is, for those who watch. */
export type Carried =
  | { readonly kind: 'connect' | 'connected' | 'refused' | 'closed' }
  | { readonly kind: 'command'; readonly name: string; readonly args: readonly string[] }
  | { readonly kind: 'reply'; readonly name: string; readonly reply: Reply }
  | { readonly kind: 'message'; readonly text: string };

/** A message on its way. */
export interface Flight {
  readonly carried: Carried;
  readonly sentAt: number;
  readonly arrivesAt: number;
}

/** One direction of a connection. Like TCP, it keeps the order, and delivers late rather than twice or not at all. */
export class Link {
  readonly #time: VirtualTime;
  readonly #latency: () => number;
  /** When the last message arrives. */
  #lastAt = 0;
  #isCut = false;
  #isHeld = false;
  #held: (readonly [deliver: () => void, carried: Carried])[] = [];
  /** What is on its way. */
  readonly flights = new Set<Flight>();

  constructor(time: VirtualTime, latency: () => number) {
    this.#time = time;
    this.#latency = latency;
  }

  send(deliver: () => void, carried: Carried): void {
    if (this.#isCut) return;
    if (this.#isHeld) return void this.#held.push([deliver, carried]);
    const at = Math.max(this.#time.now + this.#latency(), this.#lastAt);
    this.#lastAt = at;
    const flight: Flight = { carried, sentAt: this.#time.now, arrivesAt: at };
    this.flights.add(flight);
    this.#time.planAt(at, () => {
      this.flights.delete(flight);
      if (!this.#isCut) deliver();
    });
  }

  /** Nothing is delivered until `release`. */
  hold(): void {
    this.#isHeld = true;
  }

  release(): void {
    this.#isHeld = false;
    for (const [deliver, carried] of this.#held.splice(0)) this.send(deliver, carried);
  }

  /** What waits until `release`. */
  get held(): readonly Carried[] {
    return this.#held.map(([, carried]) => carried);
  }

  /** What is on its way is lost. */
  cut(): void {
    this.#isCut = true;
    this.#held = [];
    this.flights.clear();
  }
}

/** Usually half a millisecond; now and then as long as a lost packet takes to be sent again, unless it is quiet. */
export function latencyOf(random: SeededRandom, isQuiet: boolean): () => number {
  return () => {
    if (isQuiet) return 0.1 + random.next();
    if (random.chance(0.01)) return 200 + random.next() * 100;
    return random.chance(0.05) ? 5 + random.next() * 40 : 0.1 + random.next();
  };
}
