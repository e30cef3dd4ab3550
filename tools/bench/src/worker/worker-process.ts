import { ChildProgram } from 'kit';
import type { LockServiceOptions } from 'nestjs-locked';
import { fileURLToPath } from 'node:url';
import type { Answer, Order, TaskInput, TaskName, TaskOutput } from './tasks.js';

const PROGRAM = fileURLToPath(new URL('./worker.js', import.meta.url));

/** The outside view of a worker. It hears of a task before it is done, and of its result after it. */
export class WorkerProcess extends ChildProgram<Order, Answer> {
  static start(): WorkerProcess {
    // Logs are typed arrays.
    return new WorkerProcess(PROGRAM, { execArgv: ['--expose-gc'], serialization: 'advanced' });
  }

  /** One task at a time. @throws Error if the task fails or the process ends */
  async do<Name extends TaskName>(
    task: Name,
    ...[input]: undefined extends TaskInput<Name> ? [] : [input: TaskInput<Name>]
  ): Promise<TaskOutput<Name>> {
    this.tell({ task, input });
    const answer = await this.nextMessage();
    if ('error' in answer) throw new Error(`A process of the bench failed: ${answer.error}`);
    return answer.output as TaskOutput<Name>;
  }

  async end(): Promise<void> {
    this.disconnect();
    await this.ended;
  }
}

/** Processes that end when `act` has. */
export async function withWorkers<T>(
  count: number,
  act: (workers: [WorkerProcess, WorkerProcess, ...WorkerProcess[]]) => Promise<T>,
): Promise<T> {
  const workers = Array.from({ length: count }, () => WorkerProcess.start());
  try {
    return await act(workers as Parameters<typeof act>[0]);
  } finally {
    await Promise.all(workers.map((worker) => worker.end()));
  }
}

/** Processes with a lock service each. */
export function withServices<T>(
  count: number,
  options: LockServiceOptions & { readonly url: string },
  act: (workers: [WorkerProcess, WorkerProcess, ...WorkerProcess[]]) => Promise<T>,
): Promise<T> {
  return withWorkers(count, async (workers) => {
    await Promise.all(workers.map((worker) => worker.do('openService', options)));
    return act(workers);
  });
}
