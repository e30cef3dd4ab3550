import type { Hold } from '../queue/hold.js';
import { BranchMutex } from './branch-mutex.js';

/**
 * One level of holding a key in an async context: the call that acquired it, or a call inside of that one which asked
 * for the key again and joined.
 */
export class ReentryLevel {
  readonly hold: Hold;
  /** Whether a transaction has it for the calls inside, of which none has it. */
  isOfTransaction = false;
  #mutex: BranchMutex | undefined;
  /** That of the level that this one has joined: this one is inside of it. */
  readonly #around: BranchMutex | undefined;
  #closed: Promise<boolean> | undefined;

  constructor(hold: Hold, parent?: ReentryLevel) {
    this.hold = hold;
    this.#around = parent?.mutex;
    if (parent !== undefined) hold.join();
  }

  /** Whether this is the call that acquired the hold. */
  get isRoot(): boolean {
    return this.#around === undefined;
  }

  /** The branches of this level that ask for the key again enter one at a time. */
  get mutex(): BranchMutex {
    this.#mutex ??= new BranchMutex();
    return this.#mutex;
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
    this.mutex.endInside(this.#around);
    return Promise.resolve(isHeld);
  }
}
