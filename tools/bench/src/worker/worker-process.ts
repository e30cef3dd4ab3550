import { cleanUpAtExit } from 'dev-servers';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Answer, TaskInput, TaskName, TaskOutput } from './tasks.js';

const PROGRAM = fileURLToPath(new URL('./worker.js', import.meta.url));

/** The outside view of a worker. It hears of a task before it is done, and of its result after it. */
export class WorkerProcess {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static start(): WorkerProcess {
    const child = fork(PROGRAM, {
      execArgv: ['--expose-gc'],
      serialization: 'advanced', // logs are typed arrays
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    if (child.pid !== undefined) {
      const cancel = cleanUpAtExit({ kind: 'process', pid: child.pid, signal: 'SIGKILL' });
      child.once('exit', cancel);
    }
    return new WorkerProcess(child);
  }

  /** One task at a time. @throws Error if the task fails or the process ends */
  async do<Name extends TaskName>(
    task: Name,
    ...[input]: undefined extends TaskInput<Name> ? [] : [input: TaskInput<Name>]
  ): Promise<TaskOutput<Name>> {
    const stopWaiting = new AbortController();
    const { signal } = stopWaiting;
    try {
      const answered = once(this.#child, 'message', { signal }) as Promise<[Answer]>;
      const ended = once(this.#child, 'exit', { signal }).then(([code]: unknown[]) => {
        throw new Error(`A process of the bench has ended with code ${String(code)}`);
      });
      this.#child.send({ task, input });
      const [answer] = await Promise.race([answered, ended]);
      if ('error' in answer) throw new Error(`A process of the bench failed: ${answer.error}`);
      return answer.output as TaskOutput<Name>;
    } finally {
      stopWaiting.abort();
    }
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, 'exit');
    this.#child.disconnect();
    await exited;
  }
}
