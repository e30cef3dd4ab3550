import { cleanUpAtExit } from 'dev-servers';
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterTest } from '../../support/after-test.js';

/** What `java-side.mjs` can be asked for. All times are milliseconds on the clock of `sharedNow`. */
export interface JavaCommands {
  /** @returns the id of this client */
  open(url: string, lockWatchdogTimeout?: number): Promise<string>;
  /**
   * `tryLock(waitTime, leaseTime)`; without a lease, the watchdog renews it.
   * @returns when it was locked; null if it was not
   */
  tryLock(name: string, thread: number, waitMs?: number, leaseMs?: number): Promise<number | null>;
  /** @returns when it was sent @throws Error IllegalMonitorStateException if the thread does not have it */
  unlock(name: string, thread: number): Promise<number>;
  /** @returns whether it was locked */
  forceUnlock(name: string): Promise<boolean>;
  /** Each thread increments a counter in Redis `times` times under the lock, and writes into the register. */
  race(order: JavaRace): Promise<void>;
  /** How often the watchdog has renewed. */
  renewals(): Promise<number>;
}

export interface JavaRace {
  readonly key: string;
  readonly counter: string;
  /** A list: `enter <who>` and `leave <who>`. */
  readonly register: string;
  readonly callers: number;
  readonly times: number;
  readonly pauseMs: number;
}

type Name = keyof JavaCommands;
type Answer = { readonly id: number; readonly result?: unknown; readonly error?: string };

const PROGRAM = fileURLToPath(new URL('java-side.mjs', import.meta.url));

/** A process that does what a Java service with Redisson does. Killed after the test. */
export class JavaProcess {
  readonly #child: ChildProcess = fork(PROGRAM);
  readonly #exited: Promise<void>;
  readonly #open = new Map<
    number,
    { resolve: (result: unknown) => void; reject: (error: Error) => void }
  >();
  #lastId = 0;

  private constructor() {
    const cancel = cleanUpAtExit({
      kind: 'process',
      pid: this.#child.pid as number,
      signal: 'SIGKILL',
    });
    this.#exited = new Promise((resolve) => {
      this.#child.on('exit', () => {
        cancel();
        for (const { reject } of this.#open.values()) reject(new Error('it was killed'));
        resolve();
      });
    });
    this.#child.on('message', (message) => {
      const { id, result, error } = message as Answer;
      const call = this.#open.get(id);
      this.#open.delete(id);
      if (error === undefined) call?.resolve(result);
      else call?.reject(new Error(error));
    });
    afterTest(() => this.kill());
  }

  static async start(url: string, lockWatchdogTimeout?: number) {
    const java = new JavaProcess();
    const clientId = await java.call('open', url, lockWatchdogTimeout);
    return { java, clientId };
  }

  call<N extends Name>(
    command: N,
    ...args: Parameters<JavaCommands[N]>
  ): Promise<Awaited<ReturnType<JavaCommands[N]>>> {
    const id = ++this.#lastId;
    const answer = new Promise<unknown>((resolve, reject) =>
      this.#open.set(id, { resolve, reject }),
    );
    answer.catch(() => {}); // a test may end before
    this.#child.send({ id, command, args });
    return answer as Promise<Awaited<ReturnType<JavaCommands[N]>>>;
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#exited;
  }
}
