import { LockConfigError } from '../../core/lock.errors.js';
import type { Failure, ManualHold } from './manual-hold.js';

/** The readers of a call's result; its lock is released when the last reader has ended. */
export class ResultReaders {
  readonly run: ManualHold['run'];
  readonly #hold: ManualHold;
  readonly #callSite: string;
  #open = 0;
  /** Whether the request ended the last reader before it began to read. */
  #wasUnread = false;

  constructor(hold: ManualHold, callSite: string) {
    this.run = hold.run;
    this.#hold = hold;
    this.#callSite = callSite;
  }

  /** @throws LockConfigError if the lock was released: nothing protects the result any more */
  begin(): void {
    if (this.#hold.isOver) throw this.#wasUnread ? this.#unread() : iteratedTooLate(this.#callSite);
    this.#open += 1;
  }

  /** Called when the request has ended: ends the hold, unless there is a reader. */
  leaveUnread(): void {
    if (this.#open > 0) return;
    this.#wasUnread = true;
    this.#hold.end().catch(() => {}); // reported by the lock
  }

  /**
   * Ends a reader. If it was the last one, releases the lock and waits for that.
   * @param isUnread whether the request ended before this reader began to read
   */
  async end(failure?: Failure, isUnread = false): Promise<void> {
    this.#open -= 1;
    if (this.#open > 0) return;
    this.#wasUnread = isUnread;
    await this.#hold.end(failure);
  }

  /** @param leave called when the request ends, with the error for readers that begin later */
  whenTooLateToRead(leave: (unread: () => LockConfigError) => void): void {
    this.#hold.whenTooLateToRead(() => leave(() => this.#unread()));
  }

  #unread(): LockConfigError {
    return neverRead(this.#callSite, this.#hold.isOver);
  }
}

function neverRead(callSite: string, isReleased: boolean): LockConfigError {
  return new LockConfigError(
    `Cannot iterate the result of ${callSite}: its request ended before it was read${isReleased ? ', and its lock was released then' : ''}`,
  );
}

function iteratedTooLate(callSite: string): LockConfigError {
  return new LockConfigError(
    `Cannot iterate the result of ${callSite} again: its lock was released when the first iteration ended; set returns: 'iterable', so that every call takes the lock when it is iterated`,
  );
}
