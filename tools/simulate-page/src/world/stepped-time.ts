import { VirtualTime } from '../../../simulate/dist/world/virtual-time.js';
import { runTicks } from '../node/process.js';

/** Virtual time for a browser, where promises can be waited for, but not be run at once. */
export class SteppedTime extends VirtualTime {
  override get nextAt(): number {
    return super.nextAt;
  }

  /** Runs the next event to its end, unless it is after `end`. @returns whether there was one */
  async step(end: number): Promise<boolean> {
    if (!this.runNext(end)) return false;
    await this.#settle();
    return true;
  }

  /** Runs something at a moment before the next event, to its end. */
  async runAt(at: number, run: () => void): Promise<void> {
    this.now = at;
    run();
    await this.#settle();
  }

  /** Lets all promises and turns of the present moment run, in the order in which Node does. */
  async #settle(): Promise<void> {
    do {
      do {
        runTicks();
        await nextTask();
      } while (runTicks());
    } while (this.runTurns());
  }
}

const { port1, port2 } = new MessageChannel();
let begin: (() => void) | undefined;
port1.onmessage = () => begin?.();

/** The next task of the browser: all reactions of promises have run by then. */
function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    begin = resolve;
    port2.postMessage(undefined);
  });
}
