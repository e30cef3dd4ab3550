import { afterSilence } from '../../../core/time/after-silence.js';
import type { Clock } from '../../../core/time/clock.js';
import type { RedisConnection } from '../server/redis-client.js';
import { SilenceError } from './silence-error.js';

/**
 * A slow server must be given the time to show that it is there. So after a connection that was silent, the next one
 * may be silent for twice as long, up to this factor.
 */
const MOST_PATIENCE = 4;
/** But such a connection may not be silent for longer than this. */
const LONGEST_MS = 5_000;

/**
 * Leaves a server that has fallen silent while an answer is awaited, from the first command of the handshake on.
 * ioredis alone would wait for ever. With its `socketTimeout` it does not read the socket before the time is over, so
 * a process that stood still would lose a connection on which the answer has arrived.
 */
export class SilenceWatch {
  readonly #redis: RedisConnection;
  readonly #clock: Clock;
  readonly #limitMs: number;
  /** When something arrived, or since when an answer is awaited. */
  #since = 0;
  #cancel: (() => void) | undefined;
  /** The factor by which a connection may be silent for longer now. */
  #patience = 1;

  constructor(redis: RedisConnection, clock: Clock, limitMs: number) {
    this.#redis = redis;
    this.#clock = clock;
    this.#limitMs = limitMs;
    redis.on('connect', () => {
      redis.stream?.on('data', () => this.#restart());
      this.#restart();
      this.#watch();
    });
    redis.on('close', () => this.stop());
  }

  /** A command is sent now. */
  sends(): void {
    if (!this.#isAwaiting) this.#restart();
    this.#watch();
  }

  /** The connection was of use. */
  proved(): void {
    this.#patience = 1;
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  get #patientMs(): number {
    return Math.min(this.#patience * this.#limitMs, Math.max(LONGEST_MS, this.#limitMs));
  }

  get #isAwaiting(): boolean {
    return this.#redis.commandQueue.length > 0;
  }

  #restart(): void {
    this.#since = this.#clock.now();
  }

  /** Most commands are answered at once, and one timer serves them all. */
  #watch(): void {
    if (this.#cancel !== undefined) return;
    const since = this.#since;
    const leftMs = Math.max(0, since + this.#patientMs - this.#clock.now());
    this.#cancel = afterSilence(this.#clock, leftMs, () => {
      this.#cancel = undefined;
      this.#over(since);
    });
  }

  /** @param since when the silence began that is over */
  #over(since: number): void {
    if (!this.#isAwaiting) {
      // The handshake sends its commands itself. It pauses between two of them while the server loads its data.
      if (this.#redis.status === 'ready') return;
      this.#restart();
    }
    if (this.#since !== since) return this.#watch();
    this.#redis.stream?.destroy(new SilenceError(this.#patientMs));
    this.#patience = Math.min(2 * this.#patience, MOST_PATIENCE);
  }
}
