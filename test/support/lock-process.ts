import { cleanUpAtExit } from 'dev-servers';
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** Where and how a process locks: the options of its `RedisLockModule`. */
export interface LockProcessOptions {
  readonly redisUrl: string;
  readonly keyPrefix?: string;
  readonly leaseMs?: number;
  readonly waitMs?: number;
  readonly localHandovers?: number;
  readonly shutdownMs?: number;
}

/** All instants are milliseconds on the clock of `sharedNow`. */
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

/** One hold, as its holder saw it. */
export interface HoldRecord extends Entered {
  /** When the work ended, before the release. */
  readonly left: number;
  readonly lost: Loss | undefined;
  /** What `release()` answered; true after `withLock`, which does not tell. */
  readonly released: boolean;
}

/** What a piece of code was told when it asked: 'ok' or the error's code. */
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

/** What lock-worker.mjs can be told to do. */
export interface LockWorkerCommands {
  /** Starts the application; one that runs is closed before. */
  open(options: LockProcessOptions): Promise<void>;
  /** Ends what is held, and closes the application. @returns what the engine keeps all the same */
  close(): Promise<Residue | undefined>;
  /** Waits for the lock, keeps it for `ms` or until `release`; answers when it has been released. */
  hold(order: {
    attempt: number;
    key: string;
    ms?: number | undefined;
    options?: { waitMs?: number; leaseMs?: number } | undefined;
  }): Promise<HoldRecord>;
  release(attempt: number): Promise<void>;
  probe(attempt: number): Promise<Probe>;
  /** Every caller adds one to a counter in Redis, `times` times: read, pause, write, under the lock. */
  race(order: {
    key: string;
    counter: string;
    callers: number;
    times: number;
    pauseMs: number;
  }): Promise<HoldRecord[]>;
  /** Blocks the event loop, and has everything that runs afterwards ask whether the locks are held. */
  block(order: {
    ms: number;
    /** The blocking code itself asks first. */
    askAtOnce: boolean;
  }): Promise<{ from: number; to: number; heard: Heard[] }>;
  /** What the engine still keeps. */
  residue(): Promise<Residue>;
  /** Bytes of heap in use after a collection. */
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

/** A command failed in the process, or the process ended before it answered. */
export class LockProcessError extends Error {
  override readonly name = 'LockProcessError';

  constructor(
    message: string,
    /** The `code` of a LockError. */
    readonly code: string | undefined,
  ) {
    super(message);
  }
}

/** One call of `hold()`. Its promises may be left alone: none of them is an unhandled rejection. */
export interface Attempt {
  readonly entered: Promise<Entered>;
  readonly lost: Promise<Loss>;
  /** The whole hold, when it has been released. */
  readonly ended: Promise<HoldRecord>;
  probe(): Promise<Probe>;
  /** Ends the work, and waits for the release. */
  release(): Promise<HoldRecord>;
}

const WORKER = fileURLToPath(new URL('../processes/lock-worker.mjs', import.meta.url));
const CLOSE_LIMIT_MS = 10_000;

/**
 * Milliseconds. On Linux `hrtime` reads CLOCK_MONOTONIC, which counts from the start of the machine: instants of
 * different processes on one machine can be compared. (On macOS it is the same with mach_absolute_time.)
 */
export function sharedNow(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/**
 * A child process with a lock service of its own, to be paused, killed and asked.
 *
 * `LockProcess.closeAll()` in `afterEach` and `LockProcess.endAll()` in `afterAll` see to it that none is left,
 * whatever becomes of the tests; none outlives the test process either, however that ends.
 */
export class LockProcess {
  static readonly #running = new Set<LockProcess>();
  /** Starting one takes half a second: those that a test leaves unharmed serve the next. */
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
      serialization: 'advanced', // carries Infinity and undefined
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

  /** Starts an application in a process of its own. */
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
   * Closes every application, and kills the processes that are paused or do not answer.
   * @throws Error when one of them ended by itself, or kept something
   */
  static async closeAll(): Promise<void> {
    const busy = [...LockProcess.#running].filter((running) => !LockProcess.#idle.has(running));
    await Promise.all(busy.map((running) => running.#retire()));
    LockProcess.#assertNoFailures();
  }

  /** Kills every process. @throws Error when one of them ended by itself */
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

  /** Asks for the lock and keeps it for `ms`; without, until `release()`. */
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
      release: async () => {
        await this.call('release', attempt);
        return ended;
      },
    };
  }

  /** Ends it without warning (SIGKILL), also when it is paused, and waits until it is gone. */
  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exited;
  }

  /** Freezes the process (SIGSTOP): its connections stay open and it notices nothing. */
  pause(): void {
    this.#isPaused = true;
    this.#child.kill('SIGSTOP');
  }

  /** Ends a pause (SIGCONT). */
  resume(): void {
    this.#isPaused = false;
    this.#child.kill('SIGCONT');
  }

  /** Closes the application and waits until the process is gone; it is killed when that takes too long. */
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

  /** @returns false when it could not be closed in time */
  async #close(): Promise<boolean> {
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), CLOSE_LIMIT_MS);
    try {
      const residue = await this.call('close');
      if (residue && residue.queues + residue.tokens + residue.timers > 0) {
        this.#fail(`closed, the engine still keeps ${JSON.stringify(residue)}`);
      }
      return true;
    } catch {
      return false; // the process has ended, or the application does not close
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

/** Rejecting it when nobody listens is no unhandled rejection: a test need not await what it then kills. */
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
