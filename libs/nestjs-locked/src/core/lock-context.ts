import type { CleanUp } from './clean-up.js';
import type { Clock } from './clock.js';
import type { ReportLockEvent } from './lock-events.js';
import type { LockStore } from './lock-store.js';
import type { ResolvedServiceOptions } from './lock.options.js';
import type { Scheduler } from './scheduler.js';
import type { TokenRegistry } from './token-registry.js';
import type { Watchdog } from './watchdog.js';

/** What the parts of one lock service share. */
export interface LockContext {
  readonly options: ResolvedServiceOptions;
  readonly store: LockStore;
  readonly clock: Clock;
  readonly scheduler: Scheduler;
  readonly watchdog: Watchdog;
  readonly cleanUp: CleanUp;
  readonly tokens: TokenRegistry;
  readonly report: ReportLockEvent;
  /** If the machine has slept: no lease is handed out, until the store has confirmed it. */
  noticeSuspend(): void;
  /** A random number below `ms`: spreads the timers of many processes. */
  jitter(ms: number): number;
}
