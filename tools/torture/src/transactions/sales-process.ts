import { cleanUpAtExit } from 'dev-servers';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { SalesTask } from './sales-task.js';

/** The outside view of a worker that sells. */
export class SalesProcess {
  readonly name: string;
  readonly #child: ChildProcess;

  private constructor(name: string, child: ChildProcess) {
    this.name = name;
    this.#child = child;
  }

  static async start(task: SalesTask): Promise<SalesProcess> {
    const program = fileURLToPath(new URL('./sales-worker.js', import.meta.url));
    const child = fork(program, [JSON.stringify(task)], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      // Branches of a transaction send their statements at the same time, about which pg warns.
      execArgv: ['--no-deprecation'],
    });
    if (child.pid !== undefined) {
      const ended = cleanUpAtExit({ kind: 'process', pid: child.pid, signal: 'SIGKILL' });
      child.once('exit', ended);
    }
    await Promise.race([once(child, 'message'), failure(task.name, child)]);
    return new SalesProcess(task.name, child);
  }

  pause(): void {
    this.#child.kill('SIGSTOP');
  }

  resume(): void {
    this.#child.kill('SIGCONT');
  }

  async kill(): Promise<void> {
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exited;
  }

  /**
   * Lets its callers finish what they do. @returns what is wrong with its end: it must end on its own, without an error
   */
  async finish(limitMs: number): Promise<string[]> {
    const exited = once(this.#child, 'exit') as Promise<[number | null]>;
    this.#child.send('finish');
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), limitMs);
    const [code] = await exited;
    clearTimeout(timer);
    return code === 0 ? [] : [`worker ${this.name} did not end well: exit code ${code}`];
  }
}

async function failure(name: string, child: ChildProcess): Promise<never> {
  await once(child, 'exit');
  throw new Error(`worker ${name} ended: exit code ${child.exitCode}`);
}
