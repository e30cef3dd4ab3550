import { LockStoreError } from '../lock.errors.js';
import type { LockEvent, ReportLockEvent } from '../lock-events.js';
import { afterSilence } from '../time/after-silence.js';
import type { Clock } from '../time/clock.js';

/** A connection that is replaced within this time is not reported as an outage. */
const REPORT_AFTER_MS = 500;

/** What is away, and how it is reported. */
export interface OutageKind {
  /** `The lock store has been away` */
  readonly statement: string;
  /** Whether it is reported after a moment. If not, `reportNow` is called when it is certain. */
  readonly reportsItself: boolean;
  lost(cause: LockStoreError): LockEvent;
  back(awayMs: number): LockEvent;
}

/** The store cannot be reached. */
export const STORE_AWAY: OutageKind = {
  statement: 'The lock store has been away',
  reportsItself: true,
  lost: (cause) => ({ type: 'store-lost', cause }),
  back: (awayMs) => ({ type: 'store-back', awayMs }),
};

/** The store can be reached, but no messages arrive. */
export const STORE_SILENT: OutageKind = {
  statement: 'No message has arrived from the lock store',
  reportsItself: false,
  lost: (cause) => ({ type: 'inbox-lost', cause }),
  back: (awayMs) => ({ type: 'inbox-back', awayMs }),
};

/** The store can be reached, but refuses something that the locks need. */
export const STORE_REFUSES: OutageKind = {
  statement: 'The lock store has refused what the locks need',
  reportsItself: false,
  lost: (cause) => ({ type: 'rights-lost', cause }),
  back: (awayMs) => ({ type: 'rights-back', awayMs }),
};

/** The store can be reached, but not by the thread that renews leases while this one is blocked. */
export const BACKUP_AWAY: OutageKind = {
  statement: 'The backup of the renewals has been away',
  reportsItself: true,
  lost: (cause) => ({ type: 'backup-lost', cause }),
  back: (awayMs) => ({ type: 'backup-back', awayMs }),
};

/** One of several servers that have the same keys cannot be used. */
export function nodeAway(node: string): OutageKind {
  return {
    statement: `${node} has been away`,
    reportsItself: true,
    lost: (cause) => ({ type: 'node-lost', node, cause }),
    back: (awayMs) => ({ type: 'node-back', node, awayMs }),
  };
}

/** The store has not been reached since the start. @param address the beginning of a message about it */
export function storeAwaited(address: string): OutageKind {
  return {
    statement: `${address} has not been reached`,
    reportsItself: true,
    lost: (cause) => ({ type: 'store-awaited', address, cause }),
    back: (awaitedMs) => ({ type: 'store-found', address, awaitedMs }),
  };
}

/**
 * A period in which a node of the store is believed unreachable. It is reported when it begins, again for each new
 * reason, and when it ends.
 */
export class Outage {
  readonly #clock: Clock;
  readonly #failFastAfterMs: number;
  readonly #report: ReportLockEvent;
  readonly #kind: OutageKind;
  #since = 0;
  /** The reasons that were reported, without their numbers. Two may alternate during the whole outage. */
  readonly #reported = new Set<string>();
  #cancelReport: () => void = () => {};
  #failsFast = false;
  #cancelFailFast: () => void = () => {};
  #cause: LockStoreError | undefined;

  constructor(clock: Clock, failFastAfterMs: number, report: ReportLockEvent, kind = STORE_AWAY) {
    this.#kind = kind;
    this.#clock = clock;
    this.#failFastAfterMs = failFastAfterMs;
    this.#report = report;
  }

  begins(cause: LockStoreError): void {
    const { isKnown } = this;
    this.#cause = cause;
    if (isKnown) {
      if (this.isReported) this.reportNow();
      return;
    }
    this.#since = this.#clock.now();
    if (this.#kind.reportsItself)
      this.#cancelReport = afterSilence(this.#clock, REPORT_AFTER_MS, () => this.reportNow());
    this.#failsFast = this.#failFastAfterMs === 0;
    if (this.#failsFast) return;
    this.#cancelFailFast = afterSilence(
      this.#clock,
      this.#failFastAfterMs,
      () => (this.#failsFast = true),
    );
  }

  /** Whether it has begun. */
  get isKnown(): boolean {
    return this.#cause !== undefined;
  }

  /** The latest known reason. */
  get cause(): LockStoreError {
    return this.#cause as LockStoreError; // set when the outage begins
  }

  get isReported(): boolean {
    return this.#reported.size > 0;
  }

  /** Whether it has lasted for `failFastAfterMs`, so that calls that need the store fail at once. */
  get failsFast(): boolean {
    return this.#failsFast;
  }

  /** Reports the outage now, unless already done. */
  reportNow(): void {
    this.#cancelReport();
    const { cause } = this;
    const reason = cause.message.replace(/\d+/g, '');
    if (this.#reported.has(reason)) return;
    this.#reported.add(reason);
    this.#report(this.#kind.lost(cause));
  }

  ends(): void {
    this.close();
    if (!this.isReported) return;
    this.#report(this.#kind.back(this.#clock.now() - this.#since));
  }

  /** Cancels a pending report. */
  close(): void {
    this.#cancelReport();
    this.#cancelFailFast();
  }

  /**
   * The error for a call that would have to wait for the store; undefined if the outage is so short that it may end in
   * a moment.
   */
  failFastError(key: string): LockStoreError | undefined {
    if (!this.failsFast) return undefined;
    const awayMs = this.#clock.now() - this.#since;
    return this.#error(`Cannot lock '${key}': the lock store has been away for`, awayMs, key);
  }

  /** @throws LockStoreError however short the outage is */
  throwError(): never {
    throw this.#error(`${this.#kind.statement} for`, this.#clock.now() - this.#since);
  }

  #error(begin: string, awayMs: number, key?: string): LockStoreError {
    const { message } = this.cause;
    const text = `${begin} ${Math.round(awayMs)} ms: ${message}`;
    return new LockStoreError(text, key, { cause: this.#cause });
  }
}
