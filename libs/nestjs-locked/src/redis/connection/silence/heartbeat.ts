import { afterSilence } from '../../../core/time/after-silence.js';
import type { Clock } from '../../../core/time/clock.js';

export interface HeartbeatOptions {
  readonly clock: Clock;
  /** How often the server is asked for a sign of life. */
  readonly everyMs: number;
  /** How long an answer may take on any connection. */
  readonly timeLimitMs: number;
  /** Whether the server was asked to delay its answers. @default it never is */
  readonly isHeldUp?: () => boolean;
}

/**
 * How long the first answer on an idle connection may take. A single try waits for a second, within which a new
 * connection must be ready.
 */
const IDLE_LIMIT_MS = 500;

/** The limit for a distant or slow server, as a multiple of the time of its first answer. */
const PATIENCE = 3;

/** A connection counts as idle after this silence. Until then, slowness is that of the server. */
const IDLE_MS = 200;

/**
 * Detects a silently dead connection. A load balancer or router may drop an idle connection without notice to either
 * side, after which commands are never answered.
 *
 * So a command is sent regularly, which also keeps such devices from dropping the connection, and a command sent after
 * a silence must be answered soon. Longer silence is allowed on a connection in use, because a server may be slow; on
 * one that awaits only the sign of life, for which no call waits; and on one where a WAIT delays everything after it.
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
   * @param beat sends a command that is always answered
   * @param dead called once with the duration of the silence, after which the heartbeat has stopped
   */
  constructor(options: HeartbeatOptions, beat: () => void, dead: (silentMs: number) => void) {
    this.#options = options;
    this.#idleMs = Math.min(IDLE_MS, options.everyMs / 2);
    this.#beat = beat;
    this.#dead = dead;
  }

  /** Whether there has been no sign of life for a while, without a known reason. */
  get isIdle(): boolean {
    const { clock, isHeldUp } = this.#options;
    return clock.now() - this.#heardAt >= this.#idleMs && isHeldUp?.() !== true;
  }

  /** @param tookMs the time of the first answers on the new connection */
  start(tookMs: number): void {
    this.stop();
    const halfMs = Math.max(this.#options.timeLimitMs / 2, 2 * tookMs); // a new connection takes time too
    this.#limitMs = Math.min(Math.max(IDLE_LIMIT_MS, PATIENCE * tookMs), halfMs);
    this.heard();
    this.#armBeat();
  }

  stop(): void {
    this.#cancelBeat();
    this.#awaitNothing();
  }

  /** Called when a command was sent. */
  sent(): void {
    if (this.isIdle) this.#await(this.#limitMs);
  }

  /** Called when data has arrived. */
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
