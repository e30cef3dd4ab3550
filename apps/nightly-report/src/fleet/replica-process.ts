import { ChildProgram } from 'kit';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const REPLICA_FILE = fileURLToPath(new URL('../../dist/replica.js', import.meta.url));
const CLOCK_FILE = new URL('../../dist/fleet/clock-offset.js', import.meta.url).href;
const START_LIMIT_MS = 30_000;
const STOP_LIMIT_MS = 5_000;

/** The built application in a process of its own. */
export class ReplicaProcess extends ChildProgram {
  /** @param hear is given every line that the process prints */
  constructor(settings: Record<string, string>, hear: (line: string) => void = () => {}) {
    super(REPLICA_FILE, {
      execArgv: settings['CLOCK_OFFSET_MS'] === undefined ? [] : ['--import', CLOCK_FILE],
      env: { NO_COLOR: '1', ...settings },
      stdout: 'pipe',
      stderr: 'pipe',
      hear,
      endSignal: 'SIGTERM',
    });
  }

  /** Waits until it has started. */
  async ready(): Promise<void> {
    const deadline = performance.now() + START_LIMIT_MS;
    while (!this.output.includes('waits for its ticks')) {
      if (!this.isRunning || performance.now() > deadline) {
        throw new Error(`nightly-report did not start. It said:\n${this.output}`);
      }
      await sleep(50);
    }
  }

  /** Lets the process finish its report. If it does not end in time, it is killed. */
  async stop(): Promise<void> {
    this.signal('SIGTERM');
    await this.endsWithin(STOP_LIMIT_MS);
  }
}
