import { EVENTS } from '../events/lock-channels.js';
import type { LockEventMessage } from '../events/lock-messages.js';
import { RenewalWarnings } from '../events/renewal-warnings.js';
import { FirstLeases } from '../first-lease/first-leases.js';
import { StallWatch } from '../first-lease/stall-watch.js';
import type { EngineParts } from '../lease/engine-parts.js';
import { Watchdog } from '../lease/watchdog.js';
import type { LockEvent, ReportLockEvent } from '../lock-events.js';
import type { QueuesByKey } from '../queue/queues-by-key.js';
import type { ResolvedServiceOptions } from '../resolved.options.js';
import { CleanUp } from '../store/clean-up.js';
import type { LockStore } from '../store/lock-store.js';
import { BACKUP_AWAY, Outage, STORE_REFUSES, STORE_SILENT, storeAwaited } from '../store/outage.js';
import { Outages } from '../store/outages.js';
import { TokenRegistry } from '../store/token-registry.js';
import type { Clock } from '../time/clock.js';
import { LoopTurn } from '../time/loop-turn.js';
import { Scheduler } from '../time/scheduler.js';
import { SuspendDetector } from '../time/suspend-detector.js';

/** The dependencies from which the parts of an engine are made. */
export interface EngineSupplies {
  readonly store: LockStore;
  readonly options: ResolvedServiceOptions;
  readonly report: ReportLockEvent;
  readonly clock: Clock;
  /** From 0 to 1, like `Math.random`. */
  readonly random: () => number;
  /** The name of the service, if there are several. */
  readonly name?: string | undefined;
}

/** @param queues called only later, because the queues are made from the parts */
export function assembleParts(supplies: EngineSupplies, queues: () => QueuesByKey): EngineParts {
  const { store, options, clock, random, name } = supplies;
  const warnings = new RenewalWarnings(clock);
  const stalls = new StallWatch(store, clock, () => noticeSuspend());
  const report = reportToAll(supplies.report, [warnings, stalls], name);
  const suspends = new SuspendDetector(clock);
  const noticeSuspend = (): void => {
    const step = suspends.look();
    if (step === undefined) return;
    stalls.stalled(step.ms);
    for (const occupancy of queues().occupancies()) occupancy.suspect(step);
  };
  const watchdog = new Watchdog(store, clock, report);
  const scheduler = new Scheduler(clock, {
    before: noticeSuspend,
    after: () => watchdog.flush(),
  });
  const outages = new Outages(store, clock, options.failFastAfterMs, report);
  return {
    options,
    store,
    clock,
    scheduler,
    loopTurn: new LoopTurn(),
    watchdog,
    awaited: new Outage(clock, Infinity, report, storeAwaited(store.address ?? 'The lock store')),
    outages,
    silences: new Outages(store, clock, Infinity, report, STORE_SILENT),
    refusals: new Outages(store, clock, Infinity, report, STORE_REFUSES),
    backupAway: new Outages(store, clock, Infinity, report, BACKUP_AWAY),
    firstLeases: new FirstLeases(stalls),
    stalls,
    report,
    warnings,
    cleanUp: new CleanUp(store, clock, scheduler, outages),
    tokens: new TokenRegistry(store.processId, clock),
    jitter: (ms) => random() * ms,
    noticeSuspend,
    stepsAfter: (moment) => suspends.stepsAfter(moment),
  };
}

/** Tells our own listeners, the log and all subscribers, and protects later calls from a logger that throws. */
function reportToAll(
  report: ReportLockEvent,
  listeners: readonly { note(event: LockEvent): void }[],
  service: string | undefined,
): ReportLockEvent {
  return (event) => {
    for (const listener of listeners) listener.note(event);
    try {
      report(event);
    } catch {
      // There is nowhere to report this, because the log itself has failed.
    }
    if (EVENTS.hasSubscribers) EVENTS.publish({ service, event } satisfies LockEventMessage);
  };
}
