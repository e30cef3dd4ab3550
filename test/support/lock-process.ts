import { cleanUpAtExit } from 'dev-servers';
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** The Redis server of a process, and the options of its `RedisLockModule`. */
export interface LockProcessOptions {
  readonly redisUrl: string;
  readonly keyPrefix?: string;
  readonly layout?: 'redisson';
  readonly leaseMs?: number;
  readonly waitMs?: number;
  readonly localHandovers?: number;
  readonly shutdownMs?: number;
  readonly renewFrom?: 'main' | 'worker';
}

/** All times are milliseconds on the clock of `sharedNow`. */
export interface Entered {
  readonly attempt: number;
  readonly key: string;
  readonly asked: number;
  readonly entered: number;
  readonly token: number;
}

export interface Loss {
  readonly at: number;
  readonly reason: string;
  readonly code: string;
}

/** One hold, as the holder recorded it. */
export interface HoldRecord extends Entered {
  /** When the work ended, before the release. */
  readonly left: number;
  readonly lost: Loss | undefined;
  /** The result of `release()`; always true after `withLock`, which does not return it. */
  readonly released: boolean;
}

/** The result of `assertHeld()` at one point in the code: 'ok' or the error's code. */
export interface Heard {
  readonly from: string;
  readonly at: number;
  readonly attempt: number;
  readonly assertHeld: string;
}

export interface Probe {
  readonly at: number;
  readonly isHeld: boolean;
  readonly remainingMs: number;
  readonly assertHeld: string;
  readonly aborted: boolean;
}

export interface Residue {
  readonly queues: number;
  readonly tokens: number;
  readonly timers: number;
}

/** The commands of lock-worker.mjs. */
export interface LockWorkerCommands {
  /** Starts the application; a running one is closed first. */
  open(options: LockProcessOptions): Promise<void>;
  /** Ends all holds, and closes the application. @returns what the engine still keeps */
  close(): Promise<Residue | undefined>;
  /** Waits for the lock, keeps it for `ms` or until `release`, and returns after the release. */
  hold(order: {
    attempt: number;
    key: string;
    ms?: number | undefined;
    options?: { waitMs?: number; leaseMs?: number } | undefined;
  }): Promise<HoldRecord>;
  release(attempt: number): Promise<void>;
  /** Hands the lock over. */
  detach(attempt: number, forMs: number): Promise<string>;
  /** Adopts a lock, keeps it for `ms`, and returns after the release. */
  adopt(order: { attempt: number; text: string; ms: number }): Promise<HoldRecord>;
  probe(attempt: number): Promise<Probe>;
  /** Sets a timer. @returns when it fired */
  wait(ms: number): Promise<number>;
  /** Each caller increments a counter in Redis `times` times under the lock: read, pause, write. */
  race(order: {
    key: string;
    counter: string;
    callers: number;
    times: number;
    pauseMs: number;
    /** A list in Redis that says who enters and leaves. @default none */
    register?: string;
  }): Promise<HoldRecord[]>;
  /** Blocks the event loop; all code that runs afterwards checks whether the locks are held. */
  block(order: {
    ms: number;
    /** The blocking code checks first. */
    askAtOnce: boolean;
  }): Promise<{ from: number; to: number; heard: Heard[] }>;
  /** What the engine still keeps. */
  residue(): Promise<Residue>;
  /** Bytes of used heap after a garbage collection. */
  memory(): Promise<number>;
}

export type LockWorkerEvent =
  | { readonly event: 'entered'; readonly entered: Entered }
  | { readonly event: 'lost'; readonly attempt: number; readonly lost: Loss };

type Answer =
  | { readonly id: number; readonly result: unknown }
  | { readonly id: number; readonly error: { readonly message: string; readonly code?: string } };

type CommandName = keyof LockWorkerCommands;
type Result<Name extends CommandName> = Awaited<ReturnType<LockWorkerCommands[Name]>>;

/** A command failed in the process, or the process ended before it replied. */
export class LockProcessError extends Error {
  override readonly name = 'LockProcessError';

  constructor(
    message: string,
    /** The `code` of a `LockError`. */
    readonly code: string | undefined,
  ) {
    super(message);
  }
}

/** One call of `hold()`. Its promises need no handler: none of them causes an unhandled rejection. */
export interface Attempt {
  readonly entered: Promise<Entered>;
  readonly lost: Promise<Loss>;
  /** The record of the hold, once it is released. */
  readonly ended: Promise<HoldRecord>;
  probe(): Promise<Probe>;
  /** Hands the lock over. */
  detach(forMs: number): Promise<string>;
  /** Ends the hold, and waits for the release. */
  release(): Promise<HoldRecord>;
}

const WORKER = fileURLToPath(new URL('../processes/lock-worker.mjs', import.meta.url));
const CLOSE_LIMIT_MS = 10_000;

/**
 * The current time in milliseconds. On Linux, `hrtime` reads CLOCK_MONOTONIC, which counts from the start of the
 * machine, so times of different processes on one machine can be compared. The same applies to mach_absolute_time on
 * macOS.
 */
export function sharedNow(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/**
 * A child process with its own lock service, which tests can pause, kill and query.
 *
 * `LockProcess.closeAll()` in `afterEach` and `LockProcess.endAll()` in `afterAll` make sure that no process is left
 * after the tests. No process outlives the test process, however it ends.
 */
export class LockProcess {
  static readonly #running = new Set<LockProcess>();
  /** Processes ready for reuse by the next test, because starting one takes half a second. */
  static readonly #idle = new Set<LockProcess>();
  static readonly #failures: string[] = [];
  static #lastAttempt = 0;

  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;
  readonly #calls = new Map<number, Deferred<unknown>>();
  readonly #attempts = new Map<number, { entered: Deferred<Entered>; lost: Deferred<Loss> }>();
  #lastId = 0;
  #isPaused = false;

  private constructor() {
    this.#child = fork(WORKER, {
      execArgv: ['--expose-gc'],
      serialization: 'advanced', // supports Infinity and undefined
    });
    LockProcess.#running.add(this);
    const cancelCleanUp = cleanUpAtExit({ kind: 'process', pid: this.pid, signal: 'SIGKILL' });
    this.#exited = new Promise((resolve) => {
      this.#child.on('exit', (code, signal) => {
        cancelCleanUp();
        if (code !== 0 && signal !== 'SIGKILL') this.#fail(`it ended by itself: ${code ?? signal}`);
        LockProcess.#running.delete(this);
        LockProcess.#idle.delete(this);
        this.#rejectCalls(new LockProcessError(`process ${this.pid} has ended`, undefined));
        resolve();
      });
    });
    this.#child.on('message', (message) => this.#onMessage(message as Answer | LockWorkerEvent));
  }

  /** Starts an application in a child process. */
  static async start(options: LockProcessOptions): Promise<LockProcess> {
    const [idle] = LockProcess.#idle;
    const started = idle ?? new LockProcess();
    LockProcess.#idle.delete(started);
    await started.call('open', options);
    return started;
  }

  static startMany(count: number, options: LockProcessOptions): Promise<LockProcess[]> {
    return Promise.all(Array.from({ length: count }, () => LockProcess.start(options)));
  }

  /**
   * Closes every application, and kills the processes that are paused or do not respond.
   * @throws Error if a process ended on its own, or its engine kept something after it was closed
   */
  static async closeAll(): Promise<void> {
    const busy = [...LockProcess.#running].filter((running) => !LockProcess.#idle.has(running));
    await Promise.all(busy.map((running) => running.#retire()));
    LockProcess.#assertNoFailures();
  }

  /** Kills every process. @throws Error if a process ended on its own */
  static async endAll(): Promise<void> {
    await Promise.all([...LockProcess.#running].map((running) => running.kill()));
    LockProcess.#assertNoFailures();
  }

  static #assertNoFailures(): void {
    const failures = LockProcess.#failures.splice(0);
    if (failures.length > 0) throw new Error(failures.join('\n'));
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  call<Name extends CommandName>(
    command: Name,
    ...args: Parameters<LockWorkerCommands[Name]>
  ): Promise<Result<Name>> {
    const id = ++this.#lastId;
    const answer = deferred<unknown>();
    this.#calls.set(id, answer);
    this.#child.send({ id, command, args }, (error) => {
      if (error !== null) answer.reject(new LockProcessError(error.message, undefined));
    });
    return answer.promise as Promise<Result<Name>>;
  }

  /** Acquires the lock and holds it for `ms`, or until `release()` if `ms` is undefined. */
  hold(
    key: string,
    { ms, ...options }: { ms?: number; waitMs?: number; leaseMs?: number } = {},
  ): Attempt {
    const attempt = ++LockProcess.#lastAttempt;
    const told = { entered: deferred<Entered>(), lost: deferred<Loss>() };
    this.#attempts.set(attempt, told);
    const ended = this.call('hold', { attempt, key, ms, options });
    const settle = (error: Error): void => {
      told.entered.reject(error);
      told.lost.reject(error);
      this.#attempts.delete(attempt);
    };
    ended.then(() => settle(new LockProcessError('the hold has ended', undefined)), settle);
    return {
      entered: told.entered.promise,
      lost: told.lost.promise,
      ended,
      probe: () => this.call('probe', attempt),
      detach: (forMs) => this.call('detach', attempt, forMs),
      release: async () => {
        await this.call('release', attempt);
        return ended;
      },
    };
  }

  /** Goes on under a lock that was handed over, and releases it after `ms`. */
  adopt(text: string, ms = 0): Promise<HoldRecord> {
    return this.call('adopt', { attempt: ++LockProcess.#lastAttempt, text, ms });
  }

  /** Kills the process (SIGKILL), even if it is paused, and waits until it has ended. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exited;
  }

  /** Stops the process (SIGSTOP). Its connections stay open. */
  pause(): void {
    this.#isPaused = true;
    this.#child.kill('SIGSTOP');
  }

  /** Resumes the process (SIGCONT). */
  resume(): void {
    this.#isPaused = false;
    this.#child.kill('SIGCONT');
  }

  /** Closes the application, and waits until the process has ended. A process that does not close in time is killed. */
  async stop(): Promise<void> {
    this.resume();
    if (await this.#close()) this.#child.disconnect();
    else this.#child.kill('SIGKILL');
    await this.#exited;
  }

  async #retire(): Promise<void> {
    if (this.#isPaused || !(await this.#close())) await this.kill();
    else LockProcess.#idle.add(this);
  }

  /** @returns false if the application did not close in time */
  async #close(): Promise<boolean> {
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), CLOSE_LIMIT_MS);
    try {
      const residue = await this.call('close');
      if (residue && residue.queues + residue.tokens + residue.timers > 0) {
        this.#fail(`closed, the engine still keeps ${JSON.stringify(residue)}`);
      }
      return true;
    } catch {
      return false; // the process has ended, or the application did not close
    } finally {
      clearTimeout(timer);
    }
  }

  #onMessage(message: Answer | LockWorkerEvent): void {
    if ('id' in message) return this.#onAnswer(message);
    switch (message.event) {
      case 'entered':
        return this.#attempts.get(message.entered.attempt)?.entered.resolve(message.entered);
      case 'lost':
        return this.#attempts.get(message.attempt)?.lost.resolve(message.lost);
      default:
        return message satisfies never;
    }
  }

  #onAnswer(answer: Answer): void {
    const call = this.#calls.get(answer.id);
    this.#calls.delete(answer.id);
    if ('error' in answer) {
      call?.reject(new LockProcessError(answer.error.message, answer.error.code));
    } else {
      call?.resolve(answer.result);
    }
  }

  #fail(message: string): void {
    LockProcess.#failures.push(`process ${this.pid}: ${message}`);
  }

  #rejectCalls(error: Error): void {
    for (const call of this.#calls.values()) call.reject(error);
    this.#calls.clear();
  }
}

interface Deferred<T> {
  readonly promise: Promise<T>;
  resolve(value: T): void;
  reject(error: Error): void;
}

/** A rejection without a handler is ignored: a test need not await a hold whose process it kills. */
function deferred<T>(): Deferred<T> {
  let resolve!: (value: T) => void;
  let reject!: (error: Error) => void;
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  promise.catch(() => {});
  return { promise, resolve, reject };
}
