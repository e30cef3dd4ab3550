import type { Hold } from '../queue/hold.js';
import { BranchMutex } from './branch-mutex.js';

/**
 * One level of holding a key in an async context: that of the call that acquired it, or of an inner call that joined.
 */
export class ReentryLevel {
  readonly hold: Hold;
  /** Whether a transaction keeps the key for calls inside it, with no call holding it. */
  isOfTransaction = false;
  #mutex: BranchMutex | undefined;
  /** Whether this is the level of the call that acquired the hold. */
  readonly isRoot: boolean;
  /** The mutex of the level that this one has joined; undefined for readers, which do not take turns. */
  readonly #around: BranchMutex | undefined;
  #closed: Promise<boolean> | undefined;

  constructor(hold: Hold, parent?: ReentryLevel) {
    this.hold = hold;
    this.isRoot = parent === undefined;
    this.#around = hold.isShared ? undefined : parent?.mutex;
    if (parent !== undefined) hold.join();
  }

  /** Admits one at a time the branches of this level that request the key again. */
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

  /** Ends the level that acquired the hold, whose lease stays in the store. @returns as `Hold.detach` */
  detach(): ReturnType<Hold['detach']> {
    this.#closed = Promise.resolve(true);
    return this.hold.detach();
  }

  #close(): Promise<boolean> {
    if (this.isRoot) return this.hold.drop();
    const isHeld = !this.hold.isOver;
    this.hold.leave(); // before anything that could fail, because nothing else would do it
    // Branches of this level that were not awaited may still work under the key; the next sibling waits for them.
    if (this.#around !== undefined) this.mutex.endInside(this.#around);
    return Promise.resolve(isHeld);
  }
}

/**
 * Gives back what a call has acquired that will not work: in reverse order, without waiting, because failed releases
 * are repeated and reported.
 */
export function giveBack(levels: readonly ReentryLevel[]): void {
  for (const level of [...levels].reverse()) {
    if (level.isRoot) level.hold.neverWorked();
    level.close().catch(() => {});
  }
}
