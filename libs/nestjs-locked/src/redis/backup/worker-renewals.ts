import { Worker } from 'node:worker_threads';
import { LockConfigError, LockStoreError } from '../../core/lock.errors.js';
import type { LeaseBackup, RenewalBackup } from '../../core/store/renewal-backup.js';
import { atMost } from '../../core/time/at-most.js';
import type { Clock } from '../../core/time/clock.js';
import type { RedisClient } from '../connection/server/redis-client.js';
import type { RedisKeys } from '../scripts/redis-keys.js';
import type { RedisScript } from '../scripts/redis-script.js';
import { clonedOptions } from './cloned-options.js';
import { ioredisFile } from './ioredis-file.js';
import { CLOSED, REFUSED, SharedLeases, TERMS } from './shared-leases.js';
import { WORKER_PROGRAM } from './worker-program.js';

/** How often the worker thread looks for leases that are due. */
const LOOK_MS = 50;

/** The pause before a renewal is tried again. */
const RETRY_MS = 100;

/** The pause before a worker thread that has ended is replaced. */
const RESTART_MS = 5_000;

/** How often the clocks are read, because the process may be stopped between the two. */
const READINGS = 4;

export interface WorkerRenewalsOptions {
  /** The worker thread connects with its options. */
  readonly client: RedisClient;
  readonly clock: Clock;
  readonly keys: RedisKeys;
  readonly processId: string;
  /** Renews many leases that need no fencing numbers. */
  readonly script: RedisScript;
  /** How many leases one script may renew. */
  readonly portion: number;
  /** How long a command may take. */
  readonly timeLimitMs: number;
  /** How often the connection is checked. */
  readonly pingEveryMs: number;
}

export interface WorkerRenewalsListener {
  /** The worker thread has ended, or has no connection. */
  lost(cause: LockStoreError): void;
  /** It is connected again. */
  back(): void;
}

/** What the worker thread says. */
type WorkerMessage =
  { readonly kind: 'ready' } | { readonly kind: 'lost'; readonly reason: string };

/** What becomes of the worker thread. */
interface ThreadListener extends WorkerRenewalsListener {
  /** It has ended, and was not closed. */
  ended(reason: string): void;
}

/**
 * The worker thread that renews leases while the main thread is blocked, on a connection of its own. One that ends is
 * replaced; meanwhile, leases are renewed by the main thread alone.
 */
export class WorkerRenewals implements RenewalBackup {
  readonly #options: WorkerRenewalsOptions;
  readonly #connection: Readonly<Record<string, unknown>>;
  readonly #ioredis: string;
  readonly #leases: SharedLeases;
  #worker: Worker | undefined;
  #listener: ThreadListener | undefined;
  #cancelRestart: () => void = () => {};

  /** @throws LockConfigError if an option of the client cannot be passed on, or ioredis is not found */
  constructor(options: WorkerRenewalsOptions) {
    const { client, keys, processId, timeLimitMs } = options;
    const name = client.options.connectionName ?? `${keys.prefix}backup:${processId}`;
    this.#options = options;
    this.#connection = clonedOptions(client, { name, timeLimitMs });
    this.#ioredis = ioredisFile();
    this.#leases = new SharedLeases((segment) => this.#worker?.postMessage({ segment }));
  }

  of(key: string, token: string): LeaseBackup {
    return this.#leases.of(this.#options.keys.lockOf(key), token);
  }

  /**
   * Starts the thread. May be called again after it has failed and `close` was called.
   * @throws LockConfigError if there can be no thread · LockStoreError if it does not reach Redis within `limitMs`
   */
  async open(listener: WorkerRenewalsListener, limitMs: number): Promise<void> {
    let cause = lostError('it has not connected yet');
    const started = new Promise<true>((resolve, reject) => {
      this.#listener = {
        back: () => resolve(true),
        lost: (latest) => (cause = latest),
        ended: (reason) => reject(cannotStart(reason)),
      };
      this.#start();
    });
    if ((await atMost(this.#options.clock, limitMs, started)) === undefined) throw cause;
    this.#listener = {
      back: () => listener.back(),
      lost: (latest) => listener.lost(latest),
      ended: (reason) => {
        listener.lost(lostError(reason));
        this.#startLater();
      },
    };
  }

  #start(): void {
    let worker: Worker;
    try {
      worker = this.#newWorker();
    } catch (error) {
      this.#listener?.ended((error as Error).message);
      return;
    }
    let reason = 'it has ended';
    worker.on('message', (message: WorkerMessage) => {
      if (worker !== this.#worker) return;
      if (message.kind === 'ready') return this.#listener?.back();
      const { username, password } = this.#options.client.options;
      worker.postMessage({ credentials: { username, password } }); // they may have changed
      this.#listener?.lost(lostError(message.reason));
    });
    worker.on('error', (error) => (reason = error.message));
    worker.on('exit', () => {
      if (worker !== this.#worker) return;
      this.#worker = undefined;
      this.#listener?.ended(reason);
    });
    this.#worker = worker;
  }

  #newWorker(): Worker {
    const { clock, script, portion, pingEveryMs } = this.#options;
    const worker = new Worker(WORKER_PROGRAM, {
      eval: true,
      name: 'nestjs-locked',
      execArgv: [], // what the application preloads is not for this thread
      workerData: {
        ioredis: this.#ioredis,
        connection: this.#connection,
        origin: originOf(clock),
        script: { sha: script.sha, lua: script.lua },
        segments: this.#leases.segments,
        limits: {
          LOOK_MS,
          RETRY_MS,
          PORTION: portion,
          PING_MS: pingEveryMs,
          CLOSED,
          REFUSED,
          TERMS,
        },
      },
    });
    worker.unref();
    return worker;
  }

  #startLater(): void {
    const cancel = this.#options.clock.after(RESTART_MS, () => this.#start());
    cancel.mayEnd?.(true);
    this.#cancelRestart = cancel;
  }

  /** Ends the thread and its connection at once. */
  async close(): Promise<void> {
    this.#cancelRestart();
    this.#listener = undefined;
    const worker = this.#worker;
    this.#worker = undefined;
    await worker?.terminate();
  }
}

/**
 * When the clock was 0, in nanoseconds of `process.hrtime`, which is the same in every thread. Rather later: a renewal
 * must not count from after its sending.
 */
function originOf(clock: Clock): bigint {
  let least: bigint | undefined;
  for (let left = READINGS; left > 0; left--) {
    const before = clock.now();
    const origin = process.hrtime.bigint() - BigInt(Math.floor(before * 1e6));
    if (least === undefined || origin < least) least = origin;
  }
  return least as bigint;
}

function lostError(reason: string): LockStoreError {
  return new LockStoreError(`the worker thread that renews leases: ${reason}`);
}

function cannotStart(reason: string): LockConfigError {
  return new LockConfigError(
    `renewFrom: 'worker' needs a worker thread, which has ended at its start: ${reason}; use renewFrom: 'main' where there can be none`,
  );
}
