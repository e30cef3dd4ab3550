import { Logger } from '@nestjs/common';
import { LOG_CONTEXT } from '../core/log-context.js';
import { quoted } from '../core/runtime/quoted.js';
import { systemClock } from '../core/time/clock.js';
import type { LogEntry, LogMessage } from './dashboard-messages.js';
import { cut } from './shown-lock.js';

const MOST_ENTRIES = 100;

const RESULTS: Record<LogEntry['result'], string> = {
  released: 'was taken away from its holder',
  refused: 'was not released, because that lease is over',
  unknown: 'may have been released, or not: Redis did not answer',
};

/** What operators did on the pages of this process: in the application's log, and the latest of it on the page. */
export class OperatorLog {
  readonly #logger = new Logger(LOG_CONTEXT);
  #entries: LogMessage = [];

  /** The latest first. Another list after each entry. */
  get entries(): LogMessage {
    return this.#entries;
  }

  add(operator: string | undefined, key: string, result: LogEntry['result']): void {
    const entry = { at: systemClock.wallNow(), operator: cut(operator), key, result };
    this.#entries = [entry, ...this.#entries].slice(0, MOST_ENTRIES);
    const who = operator === undefined ? 'An operator' : `Operator ${quoted(operator)}`;
    this.#logger.warn(
      `${who} asked in the dashboard to release lock ${quoted(key)}, which ${RESULTS[result]}`,
    );
  }
}
