import { FENCE_BLOCK } from '../store/fence-block.js';
import type { Granted } from '../store/lock-store.js';

/**
 * The fencing numbers that the holds of one lease may use. The store has reserved them, so that no later holder is
 * given a smaller one even if this process dies. A free lock comes with one number, which is all that most calls need;
 * a renewal reserves a block when calls here take turns.
 */
export class FencingNumbers {
  #first: number;
  #used: number;
  #blockEnd: number;

  constructor({ fence, blockEnd }: Pick<Granted, 'fence' | 'blockEnd'>) {
    this.#first = fence;
    this.#used = fence - 1;
    this.#blockEnd = blockEnd;
  }

  /** The highest number that was used. */
  get used(): number {
    return this.#used;
  }

  /**
   * What the store must be told when the lease ends, so that numbers that were reserved and not used can be given out
   * again; 0 if it has nothing to correct.
   */
  get toReport(): number {
    return this.#used === this.#blockEnd ? 0 : this.#used;
  }

  /** Whether no hold has been given a number yet. */
  get areUnused(): boolean {
    return this.#used < this.#first;
  }

  /** Whether the block is used up: then the store must reserve another one first. */
  get areSpent(): boolean {
    return this.#used >= this.#blockEnd;
  }

  /** Whether calls here take turns, and will have used up the block soon. */
  get areLow(): boolean {
    return this.#used > this.#first && this.#blockEnd - this.#used < FENCE_BLOCK / 2;
  }

  /** @returns the number of the next hold: greater than all before it */
  next(): number {
    return ++this.#used;
  }

  /**
   * The grant came as a message that may be an old one: if the command that asked for it was sent twice, because its
   * connection broke, the lease may have lapsed since and been granted anew, after others had higher numbers. None is
   * handed out or given back until the store has confirmed some.
   */
  awaitConfirmation(): void {
    this.#blockEnd = this.#used;
  }

  /**
   * The store has confirmed a lease whose numbers waited for that. If others have had numbers since, the last one that
   * is reserved by now is certainly ours, and above all of theirs.
   */
  confirmed(blockEnd: number): void {
    if (blockEnd <= this.#first + FENCE_BLOCK) return; // reserved by the grant, or by the confirmation itself
    this.#first = blockEnd;
    this.#used = blockEnd - 1;
  }

  /** The store has reserved the numbers up to this one. */
  reserved(blockEnd: number): void {
    this.#blockEnd = Math.max(this.#blockEnd, blockEnd);
  }

  /** Others have seen this number: the next one is greater. */
  raise(seen: number): void {
    this.#used = Math.max(this.#used, seen);
  }
}
