import { AcquiredLocks } from '../calls/acquired-locks.js';
import { Acquisition, type CallParts } from '../calls/acquisition.js';
import { AmbientHolds } from '../calls/ambient-holds.js';
import { HandedOutLocks } from '../calls/handed-out-locks.js';
import { HolderTraces } from '../calls/holder-traces.js';
import { NestingOrder } from '../calls/nesting-order.js';
import type { TransactionalLocks } from '../calls/open-transaction.js';
import type { ReentryLevel } from '../calls/reentry-level.js';
import { keptLevels } from '../calls/transaction-registry.js';
import { DeadlockSearch } from '../deadlocks/deadlock-search.js';
import { ACQUIRE } from '../events/lock-channels.js';
import { inOrder } from '../keys/key-order.js';
import type { EngineParts } from '../lease/engine-parts.js';
import type { ReportLockEvent } from '../lock-events.js';
import type { Hold } from '../queue/hold.js';
import type { QueuesByKey } from '../queue/queues-by-key.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import type { ResolvedTransactionOptions } from '../transaction.options.js';
import { tracedAcquire } from './traced-acquire.js';

/** Distinguishes the locks of one service from those of another. */
export interface ServiceName {
  /** The name of the service, if there are several. */
  readonly name?: string | undefined;
  /** The prefix of keys in the store; undefined for the default. */
  readonly keyPrefix?: string | undefined;
}

/** The locks of one service, as the transactions of an ORM see and take them. */
export class LocksInTransactions implements TransactionalLocks {
  /** Equal in every process for the same service. */
  readonly orderedBy: string;
  readonly calls: CallParts;
  readonly handedOut: HandedOutLocks;
  readonly acquired = new AcquiredLocks();
  readonly name: string | undefined;
  /** Undefined for the default. */
  readonly keyPrefix: string | undefined;

  constructor(parts: EngineParts, queues: QueuesByKey, { name, keyPrefix }: ServiceName) {
    this.name = name;
    const ambient = new AmbientHolds(() => keptLevels(this));
    const deadlocks = new DeadlockSearch(parts, queues);
    const traces = new HolderTraces(parts, queues, deadlocks.questions);
    const nestings = new NestingOrder();
    this.calls = { service: name, parts, queues, ambient, nestings, deadlocks, traces };
    this.handedOut = new HandedOutLocks(parts, ambient, this, keyPrefix);
    this.orderedBy = `${keyPrefix ?? ''} ${name ?? ''}`;
    this.keyPrefix = keyPrefix;
  }

  get transactionOptions(): ResolvedTransactionOptions {
    return this.calls.parts.options.transactions;
  }

  get report(): ReportLockEvent {
    return this.calls.parts.report;
  }

  openHere(): readonly Hold[] {
    return this.calls.ambient.openHolds();
  }

  heldHere(): readonly Hold[] {
    return this.calls.ambient.ownHolds();
  }

  acquiredHere(): readonly Hold[] {
    return this.acquired.here();
  }

  /** The key itself, or a form that no key can have, because services with different prefixes may share a table. */
  fenceKey(key: string): string {
    return this.keyPrefix === undefined ? key : `${this.keyPrefix}{${key}}`;
  }

  take(keys: readonly string[], options: ResolvedLockOptions): Promise<readonly ReentryLevel[]> {
    return new Acquisition(this.calls, keys, options).take();
  }

  keep(): () => void {
    return this.handedOut.keep();
  }

  async holding<T>(
    keys: readonly string[],
    options: ResolvedLockOptions,
    work: (acquired: readonly Hold[]) => Promise<T>,
  ): Promise<T> {
    const sorted = inOrder(keys);
    const take = (of: ResolvedLockOptions): Promise<readonly ReentryLevel[]> =>
      this.take(sorted, of);
    const { clock } = this.calls.parts;
    const levels = await (ACQUIRE.hasSubscribers
      ? tracedAcquire(clock, this.name, sorted, options, take)
      : take(options));
    for (const level of levels) level.isOfTransaction = true;
    const acquired = levels.filter(({ isRoot }) => isRoot).map(({ hold }) => hold);
    return this.handedOut.run(levels, () => work(acquired));
  }
}
