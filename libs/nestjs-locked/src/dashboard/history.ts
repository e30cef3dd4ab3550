import { EVENTS } from '../core/events/lock-channels.js';
import type { LockEventMessage } from '../core/events/lock-messages.js';
import { subscribed } from '../core/events/subscribed.js';
import type { LockOverview } from '../core/lock-overview.js';
import { systemClock } from '../core/time/clock.js';
import type { ShownHistory } from './dashboard-messages.js';

const SLOT_MS = 10_000;

/** Fifteen minutes. */
const SLOTS = 90;

type Name = Exclude<keyof ShownHistory, 'slotMs'>;
type Slot = Record<Name, number | null>;

/**
 * The last fifteen minutes. What the channels tell of this process is always recorded; what is read from Redis about
 * all processes, only while somebody watches.
 */
export class History {
  readonly #service: string | undefined;
  readonly #startedAt = systemClock.now();
  /** By the number of the slot since the start, modulo how many are kept. */
  readonly #slots: Slot[] = Array.from({ length: SLOTS }, unknownSlot);
  #number = 0;
  readonly #end: () => void;

  constructor(service: string | undefined) {
    this.#service = service;
    this.#present().losses = 0;
    this.#end = subscribed<LockEventMessage>(EVENTS, (message) => this.#happened(message));
  }

  end(): void {
    this.#end();
  }

  /** Records a look at all processes. */
  look({
    held,
    waiting,
    oldestWaitMs,
  }: Pick<LockOverview, 'held' | 'waiting' | 'oldestWaitMs'>): void {
    const slot = this.#present();
    slot.held = Math.max(slot.held ?? 0, held);
    slot.waiting = Math.max(slot.waiting ?? 0, waiting);
    slot.oldestWaitMs = Math.max(slot.oldestWaitMs ?? 0, oldestWaitMs);
  }

  shown(): ShownHistory {
    this.#present();
    const first = this.#number + 1;
    const of = (name: Name): (number | null)[] =>
      Array.from({ length: SLOTS }, (_, i) => rounded(this.#slots[(first + i) % SLOTS]?.[name]));
    return {
      slotMs: SLOT_MS,
      held: of('held'),
      waiting: of('waiting'),
      oldestWaitMs: of('oldestWaitMs'),
      losses: of('losses'),
      leastMarginMs: of('leastMarginMs'),
    };
  }

  #happened({ service, event }: LockEventMessage): void {
    if (service !== this.#service) return;
    if (event.type === 'lost') {
      const slot = this.#present();
      slot.losses = (slot.losses ?? 0) + 1;
    } else if (event.type === 'renewed') {
      const slot = this.#present();
      slot.leastMarginMs = Math.min(slot.leastMarginMs ?? Infinity, event.marginMs);
    }
  }

  /** The present slot, after those that have begun since the last one. Nothing was lost in them. */
  #present(): Slot {
    const number = Math.floor((systemClock.now() - this.#startedAt) / SLOT_MS);
    for (let i = Math.max(this.#number + 1, number - SLOTS + 1); i <= number; i++) {
      this.#slots[i % SLOTS] = { ...unknownSlot(), losses: 0 };
    }
    this.#number = number;
    return this.#slots[number % SLOTS] as Slot;
  }
}

function unknownSlot(): Slot {
  return { held: null, waiting: null, oldestWaitMs: null, losses: null, leastMarginMs: null };
}

function rounded(value: number | null | undefined): number | null {
  return value === null || value === undefined ? null : Math.round(value);
}
