import type { Hold } from '../queue/hold.js';
import { Turns } from './turns.js';

/**
 * One level of holding a key in an async context: the call that acquired it, or a call inside of that one which asked
 * for the key again and joined.
 */
export class ReentryLevel {
  readonly hold: Hold;
  /** Whether a transaction has it for the calls inside, of which none has it. */
  isOfTransaction = false;
  #turns: Turns | undefined;
  /** The turns of the level that this one has joined: it has one of them. */
  readonly #around: Turns | undefined;
  #closed: Promise<boolean> | undefined;

  constructor(hold: Hold, parent?: ReentryLevel) {
    this.hold = hold;
    this.#around = parent?.turns;
    if (parent !== undefined) hold.join();
  }

  /** Whether this is the call that acquired the hold. */
  get isRoot(): boolean {
    return this.#around === undefined;
  }

  /** The branches of this level that ask for the key again take turns. */
  get turns(): Turns {
    this.#turns ??= new Turns();
    return this.#turns;
  }

  get isOpen(): boolean {
    return this.#closed === undefined;
  }

  /** @returns whether the key was held until now; the level that acquired it answers once the hold has ended */
  close(): Promise<boolean> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  #close(): Promise<boolean> {
    if (this.#around === undefined) return this.hold.drop();
    const isHeld = !this.hold.isOver;
    this.hold.leave(); // before anything that could fail: nobody else would do it
    // Branches of this level that it has not awaited may still work under the key: the next sibling waits for them.
    this.turns.endInside(this.#around);
    return Promise.resolve(isHeld);
  }
}
