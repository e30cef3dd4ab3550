import { LabProcess } from './lab-process.js';

/** Processes that are reused for the next trial, because starting one takes longer than most trials. */
export class ProcessPool {
  /** Kept by kind of stage, so that a process that has loaded Nest is not given to a stage that does not need it. */
  readonly #idle = new Map<boolean, LabProcess[]>();
  readonly #all = new Set<LabProcess>();
  #isClosed = false;

  async take(withNest: boolean): Promise<LabProcess> {
    const idle = this.#idle.get(withNest)?.pop();
    if (idle !== undefined) return idle;
    if (this.#isClosed) throw new Error('The lab is being closed');
    const started = await LabProcess.start();
    this.#all.add(started);
    return started;
  }

  giveBack(process: LabProcess, withNest: boolean): void {
    const idle = this.#idle.get(withNest) ?? [];
    idle.push(process);
    this.#idle.set(withNest, idle);
  }

  async discard(process: LabProcess): Promise<void> {
    this.#all.delete(process);
    await process.kill();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#all].map((process) => process.kill()));
  }
}
