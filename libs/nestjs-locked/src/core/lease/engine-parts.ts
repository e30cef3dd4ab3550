import type { RenewalWarnings } from '../events/renewal-warnings.js';
import type { FirstLeases } from '../first-lease/first-leases.js';
import type { StallWatch } from '../first-lease/stall-watch.js';
import type { ReportLockEvent } from '../lock-events.js';
import type { ResolvedServiceOptions } from '../resolved.options.js';
import type { CleanUp } from '../store/clean-up.js';
import type { LockStore } from '../store/lock-store.js';
import type { Outage } from '../store/outage.js';
import type { Outages } from '../store/outages.js';
import type { TokenRegistry } from '../store/token-registry.js';
import type { Clock } from '../time/clock.js';
import type { LoopTurn } from '../time/loop-turn.js';
import type { Scheduler } from '../time/scheduler.js';
import type { ClockStep } from '../time/suspend-detector.js';
import type { Watchdog } from './watchdog.js';

/** The shared parts of one lock service. */
export interface EngineParts {
  readonly options: ResolvedServiceOptions;
  readonly store: LockStore;
  readonly clock: Clock;
  readonly scheduler: Scheduler;
  readonly loopTurn: LoopTurn;
  readonly watchdog: Watchdog;
  readonly cleanUp: CleanUp;
  readonly tokens: TokenRegistry;
  /** The time until the store is reached for the first time. */
  readonly awaited: Outage;
  readonly outages: Outages;
  /** Parts of the store from which no messages arrive, although they can be reached. */
  readonly silences: Outages;
  /** Parts of the store that refuse something that the locks need. */
  readonly refusals: Outages;
  /** The time without a backup of the renewals, if the store has one. */
  readonly backupAway: Outages;
  /** How long leases are at first, with `firstLeaseMs`. */
  readonly firstLeases: FirstLeases;
  readonly stalls: StallWatch;
  readonly report: ReportLockEvent;
  readonly warnings: RenewalWarnings;
  /** Checks whether the machine has slept. If so, no lease is handed out before the store has confirmed it. */
  noticeSuspend(): void;
  /** The possible sleeps of the machine detected after this moment of the monotonic clock. */
  stepsAfter(moment: number): readonly ClockStep[];
  /** A random number below `ms`: spreads the timers of many processes. */
  jitter(ms: number): number;
}
