import type { CallOptions } from './caller.js';
import type { RecordedCall } from './recorder.js';

/** The own signal of one call or of many. That it aborts is written down for those that wait for their keys. */
export class OwnSignal {
  readonly #controller = new AbortController();
  readonly #calls: RecordedCall[] = [];

  get isAborted(): boolean {
    return this.#controller.signal.aborted;
  }

  /** Of a call that has this signal. */
  get options(): CallOptions {
    const onAsked = (call: RecordedCall): void => {
      this.#calls.push(call);
      if (this.isAborted) call.aborted();
    };
    return { signal: this.#controller.signal, onAsked };
  }

  readonly abort = (): void => {
    for (const call of this.#calls) call.aborted();
    this.#controller.abort();
  };
}
