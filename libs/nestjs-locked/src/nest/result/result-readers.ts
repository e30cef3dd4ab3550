import { LockConfigError } from '../../core/lock.errors.js';
import type { Failure, ManualHold } from './manual-hold.js';

/** Who reads the result of a call: its lock is released when the last reader has ended. */
export class ResultReaders {
  readonly run: ManualHold['run'];
  readonly #hold: ManualHold;
  readonly #callSite: string;
  #open = 0;
  /** Whether the last reader has ended with the request, before it has begun to read. */
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

  /** The request has ended: ends the hold, unless somebody reads. */
  leaveUnread(): void {
    if (this.#open > 0) return;
    this.#wasUnread = true;
    this.#hold.end().catch(() => {}); // reported by the lock
  }

  /**
   * Waits until the lock is released if this was the last reader.
   * @param isUnread the request has ended before this reader has begun to read
   */
  async end(failure?: Failure, isUnread = false): Promise<void> {
    this.#open -= 1;
    if (this.#open > 0) return;
    this.#wasUnread = isUnread;
    await this.#hold.end(failure);
  }

  /** @param leave called when the request ends, with what who begins to read after that is told */
  whenTooLateToRead(leave: (unread: () => LockConfigError) => void): void {
    this.#hold.whenTooLateToRead(() => leave(() => this.#unread()));
  }

  #unread(): LockConfigError {
    return neverRead(this.#callSite, this.#hold.isOver);
  }
}

function neverRead(callSite: string, isReleased: boolean): LockConfigError {
  return new LockConfigError(
    `Cannot iterate the result of ${callSite}: its request has ended without it${isReleased ? ', and its lock was released then' : ''}`,
  );
}

function iteratedTooLate(callSite: string): LockConfigError {
  return new LockConfigError(
    `Cannot iterate the result of ${callSite} again: its lock was released when the first iteration ended; set returns: 'iterable', so that every call takes the lock when it is iterated`,
  );
}
