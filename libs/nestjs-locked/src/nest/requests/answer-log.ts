import { Logger } from '@nestjs/common';
import type { LockError } from '../../core/lock.errors.js';
import { LOG_CONTEXT } from '../../core/log-context.js';
import { type Clock, systemClock } from '../../core/time/clock.js';
import { isRetryable } from './lock-answer.js';

/** The shortest time between two lines of one kind: an outage fails every request, and the log should stay readable. */
const PAUSE_MS = 60_000;

interface Line {
  readonly at: number;
  /** How many lines were suppressed since. */
  leftOut: number;
}

/** Logs what clients are not told. */
export class AnswerLog {
  readonly #logger = new Logger(LOG_CONTEXT);
  readonly #clock: Clock;
  readonly #last = new Map<string, Line>();

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
  }

  /**
   * Logs an error that was answered with this status. A busy lock and the shutdown of the application are not logged. A
   * mistake of the application is logged each time, as Nest does.
   */
  answered(error: LockError, status: number): void {
    if (error.code === 'LOCK_STORE_FAILED') this.#paced('error', 'store', error.message);
    else if (!isRetryable(error) && status >= 500) this.#logger.error(error);
  }

  /** Logs an event that was not handled, because its sender gets no answer. */
  dropped(error: LockError, pattern: string): void {
    if (!isRetryable(error)) return; // logged as an error already
    this.#paced(
      'warn',
      'event',
      `Event '${pattern}' was not handled, and its sender is not told: ${error.message}; if it must not be missed, raise waitMs, set onBusy, or send a message instead`,
    );
  }

  #paced(level: 'warn' | 'error', kind: string, text: string): void {
    const now = this.#clock.now();
    const last = this.#last.get(kind);
    if (last !== undefined && now - last.at < PAUSE_MS) {
      last.leftOut += 1;
      return;
    }
    const leftOut = last?.leftOut ?? 0;
    this.#last.set(kind, { at: now, leftOut: 0 });
    this.#logger[level](
      leftOut === 0 ? text : `${text} (${leftOut} more since the last line like this)`,
    );
  }
}

/** One for the process, because a filter used on several controllers has several instances. */
export const answerLog = new AnswerLog();
