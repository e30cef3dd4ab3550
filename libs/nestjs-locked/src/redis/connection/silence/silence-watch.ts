import { afterSilence } from '../../../core/time/after-silence.js';
import type { Clock } from '../../../core/time/clock.js';
import type { RedisConnection } from '../server/redis-client.js';
import { SilenceError } from './silence-error.js';

/**
 * A slow server must get time to show that it is alive. So after a silent connection, the next one may be silent for
 * twice as long, up to this factor.
 */
const MOST_PATIENCE = 4;
/** The longest silence of such a connection. */
const LONGEST_MS = 5_000;

/**
 * Abandons a server that is silent while an answer is awaited, from the first command of the handshake on. ioredis
 * alone would wait for ever, and its `socketTimeout` does not read the socket before it expires, so a blocked process
 * would lose a connection on which the answer has arrived.
 */
export class SilenceWatch {
  readonly #redis: RedisConnection;
  readonly #clock: Clock;
  readonly #limitMs: number;
  /** When data last arrived, or since when an answer is awaited. */
  #since = 0;
  #cancel: (() => void) | undefined;
  /** The present factor for the allowed silence. */
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

  /** Called when a command is sent. */
  sends(): void {
    if (!this.#isAwaiting) this.#restart();
    this.#watch();
  }

  /** Called when the connection has proved useful. */
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

  /** Uses one timer for all commands, because most are answered at once. */
  #watch(): void {
    if (this.#cancel !== undefined) return;
    const since = this.#since;
    const leftMs = Math.max(0, since + this.#patientMs - this.#clock.now());
    this.#cancel = afterSilence(this.#clock, leftMs, () => {
      this.#cancel = undefined;
      this.#over(since);
    });
  }

  /** @param since when the ended silence began */
  #over(since: number): void {
    if (!this.#isAwaiting) {
      // ioredis sends the commands of the handshake, and pauses between two of them while the server loads its data.
      if (this.#redis.status === 'ready') return;
      this.#restart();
    }
    if (this.#since !== since) return this.#watch();
    this.#redis.stream?.destroy(new SilenceError(this.#patientMs));
    this.#patience = Math.min(2 * this.#patience, MOST_PATIENCE);
  }
}
