import { FENCE_BLOCK, LARGEST_FENCE_BLOCK } from '../store/fence-block.js';
import type { Granted } from '../store/lock-store.js';

/**
 * The fencing numbers that the holds of one lease may use. The store has reserved them, so that no later holder gets a
 * smaller one even if this process dies. A free lock comes with one number, which is enough for most calls; when calls
 * here take turns, renewals reserve more, and the more the longer that lasts.
 *
 * All holds of a shared lease have the same number: a reader must be told apart from earlier and later writers, and not
 * from other readers. That of a permit only names its hold.
 */
export class FencingNumbers {
  #first: number;
  #used: number;
  #blockEnd: number;
  readonly #areShared: boolean;
  /** Whether others have seen the number that readers have, so that the next one must be another. */
  #isSeen = false;

  constructor({ fence, blockEnd }: Pick<Granted, 'fence' | 'blockEnd'>, areShared = false) {
    this.#areShared = areShared;
    this.#first = fence;
    this.#used = fence - 1;
    this.#blockEnd = blockEnd;
  }

  /** The highest number used. */
  get used(): number {
    return this.#used;
  }

  /**
   * The highest number used, to report when the lease ends, so that the store can reissue unused reserved numbers; 0 if
   * there is nothing to correct, and for a reader, because other readers may have higher ones.
   */
  get toReport(): number {
    return this.#areShared || this.#used === this.#blockEnd ? 0 : this.#used;
  }

  /** Whether no hold has got a number yet. */
  get areUnused(): boolean {
    return this.#used < this.#first;
  }

  /** Whether the block is used up, so that the store must reserve another one first. */
  get areSpent(): boolean {
    return this.#used >= this.#blockEnd && (!this.#areShared || this.areUnused || this.#isSeen);
  }

  /** Whether calls here take turns and will soon have used up the block. */
  get areLow(): boolean {
    if (this.#areShared) return this.areSpent;
    return this.#used > this.#first && this.#blockEnd - this.#used < this.more(0) / 2;
  }

  /**
   * How many numbers a renewal should reserve: as many again as were used, so that calls which take turns for long
   * seldom wait for more.
   * @param expected how many calls will certainly use a number; others would let a fence of all keys run away from the
   * clock
   */
  more(expected: number): number {
    if (this.#areShared) return 1;
    const count = Math.max(FENCE_BLOCK, expected, this.#used - this.#first);
    return Math.min(LARGEST_FENCE_BLOCK, count);
  }

  /** @returns the number of the next hold, greater than all before, or that of all readers */
  next(): number {
    if (this.#areShared && !this.areUnused && !this.#isSeen) return this.#used;
    this.#isSeen = false;
    return ++this.#used;
  }

  /**
   * Called for a grant by message, which may be old: if its command was sent twice because the connection broke, the
   * lease may have lapsed since and been granted again, after others had higher numbers. No number is handed out or
   * given back until the store has confirmed some.
   */
  awaitConfirmation(): void {
    this.#blockEnd = this.#used;
  }

  /** Called when the store has confirmed a lease whose numbers waited for that, with `count` new ones instead. */
  replaced(blockEnd: number, count: number): void {
    this.#first = blockEnd - count + 1;
    this.#used = this.#first - 1;
    this.#blockEnd = blockEnd;
  }

  /** Called when the store has reserved the numbers up to this one. */
  reserved(blockEnd: number): void {
    this.#blockEnd = Math.max(this.#blockEnd, blockEnd);
  }

  /** Makes the next number greater than this one, which others have seen. The one that readers have may be already. */
  raise(seen: number): void {
    if (seen < this.#used) return;
    this.#used = seen;
    this.#isSeen = true;
  }
}
