import { cleanUpAtExit } from 'dev-servers';
import type { RedisLockModuleOptions } from 'nestjs-locked';
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterTest } from './after-test.js';
import type { ConnectionSettings } from './databases.js';

export interface Sale {
  readonly token: number;
  /**
   * Times on the clock of `sharedNow`: when the lock was acquired, when the body began, and when COMMIT was answered.
   */
  readonly entered: number;
  readonly claimed: number;
  readonly committed: number;
}

export interface SaleProcessOptions {
  readonly redisUrl: string;
  readonly settings: ConnectionSettings;
  readonly lockOptions: Omit<RedisLockModuleOptions, 'connection'>;
}

const WORKER = fileURLToPath(new URL('../processes/sale-worker.mjs', import.meta.url));

interface Failure {
  readonly message: string;
  readonly code?: string;
}

interface Answer {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: Failure;
}

type Message = Answer | { readonly event: 'committing' };

/** A child process that sells under a lock, in a database transaction. Killed after the test. */
export class SaleProcess {
  readonly #child: ChildProcess;
  readonly #calls = new Map<number, (answer: Answer) => void>();
  #onCommitting: () => void = () => {};
  #lastId = 0;

  private constructor() {
    this.#child = fork(WORKER, { execArgv: [] });
    const pid = this.#child.pid as number;
    const cancelCleanUp = cleanUpAtExit({ kind: 'process', pid, signal: 'SIGKILL' });
    this.#child.once('exit', () => {
      cancelCleanUp();
      const error = { message: `the process has ended: ${this.#ending}` };
      for (const [id, answer] of this.#calls) answer({ id, error });
    });
    this.#child.on('message', (message: Message) => {
      if ('event' in message) return this.#onCommitting();
      this.#calls.get(message.id)?.(message);
    });
    afterTest(() => this.#end());
  }

  static async start({
    redisUrl,
    settings,
    lockOptions,
  }: SaleProcessOptions): Promise<SaleProcess> {
    const sale = new SaleProcess();
    const { user, ...database } = settings;
    await sale.#call('open', { redisUrl, database: { username: user, ...database }, lockOptions });
    return sale;
  }

  sell(order: { key: string; product: string }): Promise<Sale> {
    return this.#call('sell', order) as Promise<Sale>;
  }

  /**
   * Sells, but stops the process right before COMMIT is written. Resolves, with the promise of the sale, when it is
   * stopped.
   */
  async sellAndPause(order: { key: string; product: string }): Promise<{ sale: Promise<Sale> }> {
    const committing = new Promise<void>((resolve) => (this.#onCommitting = resolve));
    const sale = this.#call('sell', { ...order, stopBeforeCommit: true }) as Promise<Sale>;
    sale.catch(() => {});
    await Promise.race([committing, sale]); // the child stops itself; a SIGSTOP from here could undo `resume()`
    return { sale };
  }

  resume(): void {
    this.#child.kill('SIGCONT');
  }

  count(order: { key: string; product: string; times: number }): Promise<number> {
    return this.#call('count', order) as Promise<number>;
  }

  #call(command: string, ...args: unknown[]): Promise<unknown> {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, ({ result, error }) => {
        this.#calls.delete(id);
        if (error === undefined) resolve(result);
        else reject(Object.assign(new Error(error.message), { code: error.code }));
      });
      this.#child.send({ id, command, args });
    });
  }

  /** The signal or exit code with which the process ended; undefined while it runs. */
  get #ending(): string | number | undefined {
    return this.#child.signalCode ?? this.#child.exitCode ?? undefined;
  }

  /** @throws Error if the process ended on its own */
  async #end(): Promise<void> {
    if (this.#ending !== undefined) throw new Error(`The process has ended: ${this.#ending}`);
    const exited = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill('SIGKILL');
    await exited;
  }
}
