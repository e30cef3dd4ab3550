import type { Attributes, Meter } from '@opentelemetry/api';
import { ACQUIRE, EVENTS, HOLD } from '../core/events/lock-channels.js';
import type {
  LockAcquireMessage,
  LockEventMessage,
  LockHoldMessage,
} from '../core/events/lock-messages.js';
import { subscribed } from '../core/events/subscribed.js';
import { systemClock } from '../core/time/clock.js';
import { ATTRIBUTE, commonAttributes, errorTypeOf, outcomeOf } from './lock-attributes.js';

/** Seconds, from a hand-over inside the process to the longest waits that a request survives. */
const BOUNDARIES = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** The metrics `nestjs_locked.*`. Durations are in seconds. */
export class LockMetrics {
  readonly #waits;
  readonly #holds;
  readonly #waiters;
  readonly #held;
  readonly #oldest;
  readonly #margins;
  readonly #losses;
  readonly #transactions;
  readonly #deadlocks;
  readonly #leaders;
  /** Calls that wait, and locks that are held since the given moment: those that were counted. */
  readonly #waiting = new WeakSet<object>();
  readonly #heldSince = new Map<object, { readonly at: number; readonly name: string }>();
  /** The attributes of those that were held since the last observation, by name: of those held no more, it is 0. */
  readonly #seen = new Map<string, Attributes>();
  /** The locks of the leaders that were counted. */
  readonly #leading = new Set<string>();
  readonly #subscriptions: readonly (() => void)[];

  constructor(meter: Meter) {
    const durations = (name: string, description: string) =>
      meter.createHistogram(`nestjs_locked.${name}`, {
        description,
        unit: 's',
        advice: { explicitBucketBoundaries: BOUNDARIES },
      });
    this.#waits = durations(
      'wait.duration',
      'How long calls waited for their locks, whether they got them or not.',
    );
    this.#holds = durations('hold.duration', 'How long locks were held.');
    this.#waiters = meter.createUpDownCounter('nestjs_locked.waiters', {
      description: 'The calls that wait for a lock which somebody else has.',
      unit: '{call}',
    });
    this.#held = meter.createUpDownCounter('nestjs_locked.holds', {
      description: 'The locks that are held.',
      unit: '{lock}',
    });
    this.#margins = durations(
      'renewal.margin',
      'How long leases would still have lasted when they were renewed.',
    );
    this.#losses = meter.createCounter('nestjs_locked.losses', {
      description: 'The locks that were lost before their work had ended.',
      unit: '{lock}',
    });
    this.#transactions = meter.createCounter('nestjs_locked.transactions', {
      description: 'The transactions under locks that were not simply committed or rolled back.',
      unit: '{transaction}',
    });
    this.#deadlocks = meter.createCounter('nestjs_locked.deadlocks', {
      description: 'The waits that were ended because calls waited for each other in a ring.',
      unit: '{call}',
    });
    this.#leaders = meter.createUpDownCounter('nestjs_locked.leaders', {
      description: 'The keys for which this process leads.',
      unit: '{key}',
    });
    this.#oldest = meter.createObservableGauge('nestjs_locked.hold.oldest', {
      description: 'How long the oldest of the locks that are held has been held.',
      unit: 's',
    });
    this.#oldest.addCallback(this.#observeOldest);
    this.#subscriptions = [
      subscribed<LockAcquireMessage>(ACQUIRE.asyncEnd, (message) => this.#answered(message)),
      subscribed<LockHoldMessage>(HOLD.start, (message) => this.#began(message)),
      subscribed<LockHoldMessage>(HOLD.asyncEnd, (message) => this.#released(message)),
      subscribed<LockEventMessage>(EVENTS, (message) => this.#happened(message)),
    ];
  }

  end(): void {
    for (const unsubscribe of this.#subscriptions) unsubscribe();
    this.#oldest.removeCallback(this.#observeOldest);
  }

  /** @param message of a call, which may wait for one key after the other */
  #queued(message: LockAcquireMessage): void {
    if (this.#waiting.has(message)) return;
    this.#waiting.add(message);
    this.#waiters.add(1, attributesOf(message));
  }

  #answered(message: LockAcquireMessage): void {
    const { waitedMs = 0, via, error } = message;
    const attributes = attributesOf(message);
    this.#waiters.add(this.#waiting.delete(message) ? -1 : 0, attributes); // 0, so that there is a value
    this.#waits.record(waitedMs / 1_000, {
      ...attributes,
      [ATTRIBUTE.outcome]: outcomeOf(message),
      ...(via === undefined ? {} : { [ATTRIBUTE.via]: via }),
      ...(error === undefined ? {} : { [ATTRIBUTE.errorType]: errorTypeOf(error) }),
    });
  }

  #began(message: LockHoldMessage): void {
    const attributes = attributesOf(message);
    const name = JSON.stringify(attributes);
    this.#seen.set(name, attributes);
    this.#heldSince.set(message, { at: systemClock.now(), name });
    this.#held.add(1, attributes);
  }

  #released(message: LockHoldMessage): void {
    if (!this.#heldSince.delete(message)) return;
    const { heldMs = 0, end = 'released' } = message;
    const attributes = attributesOf(message);
    this.#held.add(-1, attributes);
    this.#holds.record(heldMs / 1_000, { ...attributes, [ATTRIBUTE.end]: end });
  }

  #happened({ service, event, request }: LockEventMessage): void {
    if (!('template' in event)) return;
    if (event.type === 'queued') {
      if (request !== undefined) this.#queued(request);
      return;
    }
    const attributes = commonAttributes(service, event.template);
    if (event.type === 'renewed') {
      this.#margins.record(event.marginMs / 1_000, attributes);
    } else if (event.type === 'lost') {
      this.#losses.add(1, { ...attributes, [ATTRIBUTE.reason]: event.error.reason });
    } else if (event.type === 'transaction') {
      this.#transactions.add(1, { ...attributes, [ATTRIBUTE.outcome]: event.outcome });
    } else if (event.type === 'deadlock') {
      this.#deadlocks.add(1, attributes);
    } else if (event.type === 'elected') {
      this.#leading.add(JSON.stringify([service, event.key]));
      this.#leaders.add(1, attributes);
    } else if (event.type === 'deposed') {
      // Others were elected before they were counted.
      const wasCounted = this.#leading.delete(JSON.stringify([service, event.key]));
      if (wasCounted) this.#leaders.add(-1, attributes);
    } else if (event.type === 'commit-unknown') {
      this.#transactions.add(1, { ...attributes, [ATTRIBUTE.outcome]: 'unknown' });
    }
  }

  /** The oldest one of each template. */
  readonly #observeOldest = (result: {
    observe(value: number, attributes: Attributes): void;
  }): void => {
    const now = systemClock.now();
    const oldest = new Map<string, number>();
    // In the order of their beginnings.
    for (const { at, name } of this.#heldSince.values()) {
      if (!oldest.has(name)) oldest.set(name, now - at);
    }
    for (const [name, attributes] of this.#seen) {
      const ms = oldest.get(name);
      if (ms === undefined) this.#seen.delete(name); // until it is held again, the last value stays
      result.observe((ms ?? 0) / 1_000, attributes);
    }
  };
}

function attributesOf({ service, template }: LockAcquireMessage | LockHoldMessage): Attributes {
  return commonAttributes(service, template);
}
