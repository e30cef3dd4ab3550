import { afterSilence } from '../../../core/time/after-silence.js';
import type { Clock } from '../../../core/time/clock.js';

export interface HeartbeatOptions {
  readonly clock: Clock;
  /** How often the other side is asked for a sign of life. */
  readonly everyMs: number;
  /** How long an answer may take at most, on any connection. */
  readonly timeLimitMs: number;
  /** Whether the server has been asked to answer nothing for a while. @default it never is */
  readonly isHeldUp?: () => boolean;
}

/**
 * How long the first answer on a connection that was idle may take. A call that makes a single try waits for a second;
 * within that, a new connection must be there.
 */
const IDLE_LIMIT_MS = 500;

/** For a server that is far away or slow: how often the limit contains the time of its first answer. */
const PATIENCE = 3;

/** After such a silence, a connection counts as idle. Until then, whatever is slow is the server. */
const IDLE_MS = 200;

/**
 * Finds out that a connection is dead although nothing says so. A balancer or a router may forget a connection on which
 * nothing was said for a while, without a word to either side: what is sent then is never answered.
 *
 * So something is sent regularly, which also keeps such devices from forgetting the connection. And a command that is
 * sent after a silence must be answered soon. A connection that is in use may be silent for longer, because a server
 * may be slow; so may one on which nothing but that sign of life is awaited, because nobody waits for it, and one on
 * which a WAIT holds up everything behind it.
 */
export class Heartbeat {
  readonly #options: HeartbeatOptions;
  readonly #idleMs: number;
  readonly #beat: () => void;
  readonly #dead: (silentMs: number) => void;
  #heardAt = 0;
  #cancelBeat: () => void = () => {};
  #limitMs = IDLE_LIMIT_MS;
  #limitAt = Infinity;
  #cancelLimit: (() => void) | undefined;

  /**
   * @param beat sends something that is answered
   * @param dead called once, with the time for which there was no answer; the heartbeat has stopped then
   */
  constructor(options: HeartbeatOptions, beat: () => void, dead: (silentMs: number) => void) {
    this.#options = options;
    this.#idleMs = Math.min(IDLE_MS, options.everyMs / 2);
    this.#beat = beat;
    this.#dead = dead;
  }

  /** Whether nothing has been heard for a while, and nothing says that this is as it should be. */
  get isIdle(): boolean {
    const { clock, isHeldUp } = this.#options;
    return clock.now() - this.#heardAt >= this.#idleMs && isHeldUp?.() !== true;
  }

  /** @param tookMs how long the first answers on the new connection have taken */
  start(tookMs: number): void {
    this.stop();
    const halfMs = Math.max(this.#options.timeLimitMs / 2, 2 * tookMs); // a new connection takes time as well
    this.#limitMs = Math.min(Math.max(IDLE_LIMIT_MS, PATIENCE * tookMs), halfMs);
    this.heard();
    this.#armBeat();
  }

  stop(): void {
    this.#cancelBeat();
    this.#awaitNothing();
  }

  /** A command was sent. */
  sent(): void {
    if (this.isIdle) this.#await(this.#limitMs);
  }

  /** Something has arrived. */
  heard(): void {
    this.#heardAt = this.#options.clock.now();
    if (this.#cancelLimit !== undefined) this.#awaitNothing();
  }

  #await(ms: number): void {
    const { clock } = this.#options;
    const at = clock.now() + ms;
    if (this.#limitAt <= at) return;
    this.#awaitNothing();
    this.#limitAt = at;
    this.#cancelLimit = afterSilence(clock, ms, () => {
      this.stop();
      this.#dead(Math.round(ms));
    });
  }

  #awaitNothing(): void {
    this.#cancelLimit?.();
    this.#cancelLimit = undefined;
    this.#limitAt = Infinity;
  }

  #armBeat(): void {
    const { clock, everyMs, timeLimitMs } = this.#options;
    this.#cancelBeat = clock.after(everyMs, () => {
      this.#armBeat();
      if (this.isIdle) this.#await(Math.max(timeLimitMs / 2, this.#limitMs));
      this.#beat();
    });
  }
}
