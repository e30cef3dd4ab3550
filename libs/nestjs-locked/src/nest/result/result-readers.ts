import { LockConfigError } from '../../core/lock.errors.js';
import type { Failure, ManualHold } from './manual-hold.js';

/** Who reads the result of a call: its lock is released when the last reader has ended. */
export class ResultReaders {
  readonly run: ManualHold['run'];
  readonly #hold: ManualHold;
  readonly #label: string;
  #open = 0;

  constructor(hold: ManualHold, label: string) {
    this.run = hold.run;
    this.#hold = hold;
    this.#label = label;
  }

  /** @throws LockConfigError if the lock was released: nothing protects the result any more */
  begin(): void {
    if (this.#hold.isOver) throw iteratedTooLate(this.#label);
    this.#open += 1;
  }

  /** Waits until the lock is released if this was the last reader. */
  async end(failure?: Failure): Promise<void> {
    this.#open -= 1;
    if (this.#open === 0) await this.#hold.end(failure);
  }
}

function iteratedTooLate(label: string): LockConfigError {
  return new LockConfigError(
    `Cannot iterate the result of ${label} again: its lock was released when the first iteration ended; set returns: 'iterable', so that every call takes the lock when it is iterated`,
  );
}
