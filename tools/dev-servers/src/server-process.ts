import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { cleanUpAtExit } from './clean-up.js';

export interface ServerProcessOptions {
  readonly program: string;
  readonly args: readonly string[];
  /** The working directory of the server. */
  readonly folder: string;
  /** The file that receives everything the server prints. */
  readonly logFile: string;
  /** The signal that ends the server at once and in good order. */
  readonly endSignal: NodeJS.Signals;
  /** Variables to add to the environment of this process. */
  readonly environment?: Readonly<Record<string, string>>;
  /** The user and group to run as. Only root may change them. */
  readonly userId?: number | undefined;
  /** Whether the processes that it starts end with it when this process is gone. */
  readonly isGroup?: boolean;
}

/** The server ended before it was ready; `log` is the end of what it printed. */
export class ServerStartError extends Error {
  override readonly name = 'ServerStartError';

  constructor(
    message: string,
    readonly log: string,
  ) {
    super(log === '' ? message : `${message}\n${log}`);
  }
}

/**
 * A server that runs as a child process, in a process group of its own, so that Ctrl-C reaches only the processes that
 * use it. It does not keep this process alive, and does not outlive it.
 */
export class ServerProcess {
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;

  constructor(private readonly options: ServerProcessOptions) {
    const { program, args, folder, logFile, endSignal, environment, userId, isGroup } = options;
    const log = openSync(logFile, 'a');
    this.#child = spawn(program, args, {
      cwd: folder,
      detached: true,
      stdio: ['ignore', log, log],
      env: { ...process.env, ...environment },
      ...(userId !== undefined && { uid: userId, gid: userId }),
    });
    closeSync(log);
    this.#child.unref();

    // A program that cannot be started has no exit event, only an error.
    this.#exited = once(this.#child, 'exit').catch(() => {});
    if (this.#child.pid !== undefined) {
      const pid = isGroup ? -this.#child.pid : this.#child.pid;
      const cancelCleanUp = cleanUpAtExit({ kind: 'process', pid, signal: endSignal });
      void this.#exited.then(cancelCleanUp);
    }
  }

  /** The process id; 0 if the program could not be started. */
  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get hasExited(): boolean {
    return this.pid === 0 || this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /**
   * Calls `isReady` again and again until it returns true.
   *
   * @throws ServerStartError if the server ends first, or is not ready within `limitMs`. In the latter case it is
   * ended.
   */
  async waitUntilReady(isReady: () => Promise<boolean>, limitMs: number): Promise<void> {
    const deadline = performance.now() + limitMs;
    for (;;) {
      if (this.hasExited) {
        throw new ServerStartError(
          `${this.options.program} ended while it started`,
          this.#logTail(),
        );
      }
      if (await isReady()) return;
      if (performance.now() >= deadline) {
        await this.end();
        throw new ServerStartError(
          `${this.options.program} was not ready after ${limitMs} ms`,
          this.#logTail(),
        );
      }
      await sleep(10);
    }
  }

  /** Waits until it has done its work. @throws ServerStartError if it fails */
  async succeeds(): Promise<void> {
    this.#child.ref();
    await this.#exited;
    const { exitCode } = this.#child;
    if (exitCode === 0) return;
    const message = `${this.options.program} failed with exit code ${exitCode}`;
    throw new ServerStartError(message, this.#logTail());
  }

  /** Sends a signal, unless the server has ended. */
  signal(signal: NodeJS.Signals): void {
    if (!this.hasExited) this.#child.kill(signal);
  }

  /** Ends the server, even if it is paused, and waits until it is gone. SIGKILL follows after `graceMs`. */
  async end(graceMs = 5_000): Promise<void> {
    if (this.hasExited) return;
    this.#child.ref();
    const killTimer = setTimeout(() => this.signal('SIGKILL'), graceMs);
    this.signal(this.options.endSignal);
    this.signal('SIGCONT');
    await this.#exited;
    clearTimeout(killTimer);
  }

  #logTail(): string {
    return readFileSync(this.options.logFile, 'utf8').trim().split('\n').slice(-12).join('\n');
  }
}
