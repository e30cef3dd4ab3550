import { LockStoreError } from '../../../core/lock.errors.js';
import { afterSilence } from '../../../core/time/after-silence.js';
import type { Clock } from '../../../core/time/clock.js';
import { SilenceError } from './silence-error.js';

/**
 * The connection for commands was idle and did not answer. Whether something on the way had forgotten it is not known
 * before its successor has answered a command: a server that is paused for writes admits the successor as well.
 */
export class IdleReplacement {
  readonly #clock: Clock;
  #cause: LockStoreError | undefined;
  #silentMs = 0;
  #cancel: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** There is no successor yet, and that is no outage so far. */
  get isAwaited(): boolean {
    return this.#cancel !== undefined;
  }

  /** @param tooLate called when there is no successor after `limitMs` */
  begins(silentMs: number, limitMs: number, tooLate: () => void): LockStoreError {
    this.ends();
    this.#silentMs = silentMs;
    this.#cancel = afterSilence(this.#clock, limitMs, tooLate);
    const reason = `The connection for commands was idle, and did not answer within ${silentMs} ms`;
    this.#cause = new LockStoreError(reason, undefined, { cause: new SilenceError(silentMs) });
    return this.#cause;
  }

  /** The successor is there. If that took as long, the server is slow, and nothing was forgotten. */
  admitted(tookMs: number): void {
    this.#cancel?.();
    this.#cancel = undefined;
    if (tookMs >= this.#silentMs) this.ends();
  }

  /** The successor has answered a command. @returns what can be told now */
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
