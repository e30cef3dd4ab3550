import { cleanUpAtExit } from 'dev-servers';
import { type ChildProcess, fork } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { FromWorker, ToWorker } from '../work/messages.js';

const PROGRAM = fileURLToPath(new URL('../worker.js', import.meta.url));
const START_LIMIT_MS = 60_000;

/** The outside view of a process in which callers run: it can be told what to do, paused and killed. */
export class LabProcess {
  readonly #child: ChildProcess;
  readonly #messages = new EventEmitter();
  #isPaused = false;

  private constructor(child: ChildProcess) {
    this.#child = child;
    child.on('message', (message: FromWorker) => this.#messages.emit('message', message));
  }

  static async start(): Promise<LabProcess> {
    const child = fork(PROGRAM, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    const started = new LabProcess(child);
    if (child.pid !== undefined) {
      const cancel = cleanUpAtExit({ kind: 'process', pid: child.pid, signal: 'SIGKILL' });
      child.once('exit', cancel);
    }
    await started.isReady();
    return started;
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  onMessage(listen: (message: FromWorker) => void): () => void {
    this.#messages.on('message', listen);
    return () => this.#messages.off('message', listen);
  }

  /** @throws Error if the process reports that something is broken, ends, or is silent for a minute */
  async isReady(): Promise<void> {
    await this.says('ready');
  }

  async says<Say extends FromWorker['say']>(say: Say): Promise<Extract<FromWorker, { say: Say }>> {
    return new Promise((resolve, reject) => {
      const settle = (act: () => void): void => {
        stopListening();
        clearTimeout(timer);
        this.#child.off('exit', ended);
        act();
      };
      const stopListening = this.onMessage((message) => {
        if (message.say === say)
          settle(() => resolve(message as Extract<FromWorker, { say: Say }>));
        if (message.say === 'broken') settle(() => reject(new Error(message.message)));
      });
      const ended = (): void => settle(() => reject(new Error('A process of the lab has ended')));
      const timer = setTimeout(
        () => settle(() => reject(new Error(`A process of the lab did not say '${say}'`))),
        START_LIMIT_MS,
      );
      this.#child.once('exit', ended);
    });
  }

  tell(message: ToWorker): void {
    if (this.isRunning) this.#child.send(message, () => {}); // it may have been killed by now
  }

  pause(): void {
    this.#isPaused = true;
    this.#child.kill('SIGSTOP');
  }

  resume(): void {
    this.#isPaused = false;
    this.#child.kill('SIGCONT');
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  async kill(): Promise<void> {
    if (!this.isRunning) return;
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exited;
  }
}
