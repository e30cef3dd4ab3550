import { cleanUpAtExit } from 'dev-servers';
import { type ChildProcess, fork, type Serializable } from 'node:child_process';
import { type EventEmitter, once } from 'node:events';
import { createInterface } from 'node:readline';

/** What becomes of what it prints: it is shown where this process prints, kept in `output`, or dropped. */
type Printed = 'inherit' | 'pipe' | 'ignore';

export interface ChildProgramOptions {
  readonly args?: readonly string[];
  /** Options of Node. Default: those of this process. */
  readonly execArgv?: readonly string[];
  /** Variables to add to the environment of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** @default 'inherit' */
  readonly stdout?: Printed;
  /** @default 'inherit' */
  readonly stderr?: Printed;
  /** Is given every line that is kept. */
  readonly hear?: (line: string) => void;
  /** How messages travel; `advanced` for typed arrays. @default 'json' */
  readonly serialization?: 'json' | 'advanced';
  /** Sent to the program when this process is gone. @default 'SIGKILL' */
  readonly endSignal?: NodeJS.Signals;
}

/** How many of the last lines are kept. */
const KEPT_LINES = 500;

/** A Node program in a process of its own, seen from outside. It does not outlive this process, however that ends. */
export class ChildProgram<ToChild = never, FromChild = unknown> {
  /** Resolves with its `ending`, when it is gone and what it printed has been read. */
  readonly ended: Promise<string>;
  readonly #child: ChildProcess;
  readonly #lines: string[] = [];
  #isPaused = false;

  constructor(program: string, options: ChildProgramOptions = {}) {
    const { args = [], execArgv = process.execArgv, env, serialization = 'json' } = options;
    const { stdout = 'inherit', stderr = 'inherit', hear, endSignal = 'SIGKILL' } = options;
    const child = fork(program, args, {
      execArgv: [...execArgv],
      env: { ...process.env, ...env },
      serialization,
      stdio: ['ignore', stdout, stderr, 'ipc'],
    });
    this.#child = child;
    const streams = [child.stdout, child.stderr].filter((stream) => stream !== null);
    // Its last messages come before `disconnect`. There is no `close` if this side has disconnected.
    const exited = Promise.all([
      event(child, 'exit'),
      event(child, 'disconnect'),
      ...streams.map((stream) => event(stream, 'close')),
    ]).then(() => this.ending ?? '');
    // A program that cannot be started has no other event.
    const failed = new Promise<string>((resolve) => {
      child.on('error', ({ message }) => child.pid === undefined && resolve(message));
    });
    this.ended = Promise.race([exited, failed]);
    if (child.pid !== undefined) {
      const cancel = cleanUpAtExit({ kind: 'process', pid: child.pid, signal: endSignal });
      void this.ended.then(cancel);
    }
    for (const stream of streams) {
      createInterface(stream).on('line', (line) => {
        this.#lines.push(line);
        if (this.#lines.length > KEPT_LINES) this.#lines.shift();
        hear?.(line);
      });
    }
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get isRunning(): boolean {
    return this.pid !== undefined && this.ending === undefined;
  }

  /** The signal that ended it, or its exit code; undefined while it runs. */
  get ending(): string | undefined {
    const { signalCode, exitCode } = this.#child;
    return signalCode ?? (exitCode === null ? undefined : `exit code ${exitCode}`);
  }

  /** `null` while it runs, and if a signal ended it. */
  get exitCode(): number | null {
    return this.#child.exitCode;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** The last lines that were kept. */
  get output(): string {
    return this.#lines.join('\n');
  }

  /** It may be gone by now: then it hears nothing. */
  tell(message: ToChild): void {
    if (this.#child.connected) this.#child.send(message as Serializable, () => {});
  }

  /** @returns a function that ends the listening */
  onMessage(listen: (message: FromChild) => void): () => void {
    const listener = (message: unknown): void => listen(message as FromChild);
    this.#child.on('message', listener);
    return () => this.#child.off('message', listener);
  }

  /** Its next message. @throws Error if it ends without one */
  async nextMessage(): Promise<FromChild> {
    const stopWaiting = new AbortController();
    const { signal } = stopWaiting;
    try {
      const ended = this.ended.then((how): never => {
        throw new Error(`The process has ended: ${how}`);
      });
      const message = once(this.#child, 'message', { signal }) as Promise<[FromChild]>;
      return (await Promise.race([message, ended]))[0];
    } finally {
      stopWaiting.abort();
    }
  }

  /** Lets it end on its own: it hears that nobody listens any more. */
  disconnect(): void {
    if (this.#child.connected) this.#child.disconnect();
  }

  signal(signal: NodeJS.Signals): void {
    if (this.isRunning) this.#child.kill(signal);
  }

  /** Freezes it: its connections stay open, and it notices nothing. */
  pause(): void {
    this.#isPaused = true;
    this.signal('SIGSTOP');
  }

  resume(): void {
    this.#isPaused = false;
    this.signal('SIGCONT');
  }

  /** Ends it without warning, even if it is paused, and waits until it is gone. */
  async kill(): Promise<void> {
    this.signal('SIGKILL');
    await this.ended;
  }

  /** Waits until it ends on its own; after too long, it is killed. @returns how it ended */
  async endsWithin(limitMs: number): Promise<string> {
    const limit = setTimeout(() => this.signal('SIGKILL'), limitMs);
    const how = await this.ended;
    clearTimeout(limit);
    return how;
  }
}

function event(emitter: EventEmitter, name: string): Promise<void> {
  return new Promise((resolve) => emitter.once(name, () => resolve()));
}
