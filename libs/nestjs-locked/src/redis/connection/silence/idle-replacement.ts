import { LockStoreError } from '../../../core/lock.errors.js';
import { afterSilence } from '../../../core/time/after-silence.js';
import type { Clock } from '../../../core/time/clock.js';
import { SilenceError } from './silence-error.js';

/**
 * The replacement of an idle connection for commands that did not answer. Whether a device on the way had dropped it is
 * known only when its successor has answered a command, because a server paused for writes also admits the successor.
 */
export class IdleReplacement {
  readonly #clock: Clock;
  #cause: LockStoreError | undefined;
  #silentMs = 0;
  #cancel: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether the successor is pending, which is no outage yet. */
  get isAwaited(): boolean {
    return this.#cancel !== undefined;
  }

  /** @param tooLate called if there is no successor after `limitMs` */
  begins(silentMs: number, limitMs: number, tooLate: () => void): LockStoreError {
    this.ends();
    this.#silentMs = silentMs;
    this.#cancel = afterSilence(this.#clock, limitMs, tooLate);
    const reason = `The connection for commands was idle, and did not answer within ${silentMs} ms`;
    this.#cause = new LockStoreError(reason, undefined, { cause: new SilenceError(silentMs) });
    return this.#cause;
  }

  /** Called when the successor is ready. If that took as long, the server is slow, and no connection was dropped. */
  admitted(tookMs: number): void {
    this.#cancel?.();
    this.#cancel = undefined;
    if (tookMs >= this.#silentMs) this.ends();
  }

  /** Called when the successor has answered a command. @returns the error that can now be reported */
  answered(sentAt: number): LockStoreError | undefined {
    const cause = this.#cause;
    if (cause === undefined) return undefined;
    this.ends();
    return this.#clock.now() - sentAt < this.#silentMs ? cause : undefined;
  }

  ends(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#cause = undefined;
  }
}
