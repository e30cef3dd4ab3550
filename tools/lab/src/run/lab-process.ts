import { ChildProgram } from 'kit';
import { fileURLToPath } from 'node:url';
import type { FromWorker, ToWorker } from '../work/messages.js';

const PROGRAM = fileURLToPath(new URL('../worker.js', import.meta.url));
const START_LIMIT_MS = 60_000;

/** The outside view of a process in which callers run. */
export class LabProcess extends ChildProgram<ToWorker, FromWorker> {
  static async start(): Promise<LabProcess> {
    const started = new LabProcess(PROGRAM);
    await started.says('ready');
    return started;
  }

  /** @throws Error if the process reports that something is broken, ends, or is silent for a minute */
  async says<Say extends FromWorker['say']>(say: Say): Promise<Extract<FromWorker, { say: Say }>> {
    return new Promise((resolve, reject) => {
      const settle = (act: () => void): void => {
        stopListening();
        clearTimeout(timer);
        act();
      };
      const stopListening = this.onMessage((message) => {
        if (message.say === say)
          settle(() => resolve(message as Extract<FromWorker, { say: Say }>));
        if (message.say === 'broken') settle(() => reject(new Error(message.message)));
      });
      const fail = (what: string): void =>
        settle(() => reject(new Error(`A process of the lab ${what}`)));
      const timer = setTimeout(() => fail(`did not say '${say}'`), START_LIMIT_MS);
      void this.ended.then((how) => fail(`has ended: ${how}`));
    });
  }
}

/** Processes that are reused for the next trial, because starting one takes longer than most trials. */
export class ProcessPool {
  readonly #all = new Set<LabProcess>();
  readonly #idle = new Map<boolean, LabProcess[]>();
  #isClosed = false;

  /** @param withNest so that a process that has loaded Nest is not given to a stage that does not need it */
  async take(withNest: boolean): Promise<LabProcess> {
    const idle = this.#idle.get(withNest)?.pop();
    if (idle !== undefined) return idle;
    if (this.#isClosed) throw new Error('The lab is being closed');
    const started = await LabProcess.start();
    this.#all.add(started);
    return started;
  }

  giveBack(process: LabProcess, withNest: boolean): void {
    this.#idle.set(withNest, [...(this.#idle.get(withNest) ?? []), process]);
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
