import { ChildProgram } from 'kit';
import { fileURLToPath } from 'node:url';
import type { SalesTask } from './sales-task.js';

const PROGRAM = fileURLToPath(new URL('./sales-worker.js', import.meta.url));

/** The outside view of a worker that sells. */
export class SalesProcess extends ChildProgram<'finish'> {
  readonly name: string;

  private constructor(task: SalesTask) {
    // Branches of a transaction send their statements at the same time, about which pg warns.
    super(PROGRAM, { args: [JSON.stringify(task)], execArgv: ['--no-deprecation'] });
    this.name = task.name;
  }

  static async start(task: SalesTask): Promise<SalesProcess> {
    const started = new SalesProcess(task);
    await started.nextMessage();
    return started;
  }

  /**
   * Lets its callers finish what they do. @returns what is wrong with its end: it must end on its own, without an error
   */
  async finish(limitMs: number): Promise<string[]> {
    this.tell('finish');
    const how = await this.endsWithin(limitMs);
    return how === 'exit code 0' ? [] : [`worker ${this.name} did not end well: ${how}`];
  }
}
