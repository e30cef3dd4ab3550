import type { LockEvent } from '../lock-events.js';
import type { LockStore, ObservedHour } from '../store/lock-store.js';
import { atMost } from '../time/at-most.js';
import type { CancelTimer, Clock } from '../time/clock.js';
import { hourOf, StallHistory } from './stall-history.js';

/** How often it is looked whether this process stands still. */
const BEAT_MS = 100;

/** How long the end of the locks waits for what was observed last, which others will observe as well. */
const LAST_WORDS_MS = 1_000;

/**
 * Measures for how long this process cannot renew a lease: because it is blocked or paused, the machine sleeps, or the
 * store does not answer. Nothing is measured before it is started.
 *
 * What is observed is shared with the other processes once an hour, so that one that has just started knows it too.
 */
export class StallWatch {
  readonly #store: Pick<LockStore, 'shareStalls'>;
  readonly #clock: Clock;
  /** Called at each beat: finds out whether the machine has slept, and tells `stalled`. */
  readonly #onBeat: () => void;
  readonly #history = new StallHistory();
  #cancelBeat: CancelTimer | undefined;
  #hour = 0;
  #isAway = false;

  constructor(store: Pick<LockStore, 'shareStalls'>, clock: Clock, onBeat: () => void) {
    this.#store = store;
    this.#clock = clock;
    this.#onBeat = onBeat;
  }

  get hour(): number {
    return hourOf(this.#clock.wallNow());
  }

  /** The longest stall that must be reckoned with; undefined if too little is known. */
  get longestMs(): number | undefined {
    return this.#history.longestMs(this.hour);
  }

  start(): void {
    if (this.#cancelBeat !== undefined) return;
    this.#hour = this.hour;
    this.#history.note(this.#hour, 0);
    this.#beat();
    void this.#share([]);
  }

  /** Called when something has taken this long in which no lease could be renewed. */
  stalled(ms: number): void {
    if (this.#cancelBeat !== undefined) this.#history.note(this.hour, ms);
  }

  /** Called for every event: an outage is a stall. */
  note(event: LockEvent): void {
    if (event.type === 'store-lost') this.#isAway = true;
    if (event.type !== 'store-back') return;
    this.#isAway = false;
    this.stalled(event.awayMs);
  }

  /** Shares what was observed in the last hour, unless the store is away: closing it would wait for that command. */
  async close(): Promise<void> {
    if (this.#cancelBeat === undefined) return;
    this.#cancelBeat();
    this.#cancelBeat = undefined;
    if (this.#isAway) return;
    const shared = this.#share([this.#history.of(this.#hour)]);
    await atMost(this.#clock, LAST_WORDS_MS, shared);
  }

  #beat(): void {
    const dueAt = this.#clock.now() + BEAT_MS;
    this.#cancelBeat = this.#clock.after(BEAT_MS, () => {
      this.#beat();
      this.stalled(this.#clock.now() - dueAt);
      this.#onBeat();
      this.#shareIfHourIsOver();
    });
    this.#cancelBeat.mayEnd?.(true);
  }

  #shareIfHourIsOver(): void {
    const before = this.#hour;
    this.#hour = this.hour;
    if (this.#hour !== before) void this.#share([this.#history.of(before)]);
  }

  async #share(observed: readonly ObservedHour[]): Promise<void> {
    const reply = await this.#store.shareStalls?.(observed);
    if (reply?.kind !== 'shared') return; // without what others know, the leases are whole for longer
    for (const [hour, ms] of reply.observed) this.#history.note(hour, ms);
  }
}
