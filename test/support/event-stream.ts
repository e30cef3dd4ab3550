import { afterTest } from './after-test.js';
import { eventually } from './eventually.js';

/** A stream of server-sent events, as a test reads it. */
export class EventStream {
  readonly events: { readonly event: string; readonly data: unknown }[] = [];
  isEnded = false;
  readonly #abort: AbortController;

  private constructor(response: Response, abort: AbortController) {
    this.#abort = abort;
    void this.#read(response).finally(() => (this.isEnded = true));
  }

  static async open(url: string, headers: Record<string, string> = {}): Promise<EventStream> {
    const abort = new AbortController();
    const response = await fetch(url, { headers, signal: abort.signal });
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
    const stream = new EventStream(response, abort);
    afterTest(() => stream.close());
    return stream;
  }

  close(): void {
    this.#abort.abort();
  }

  /** The latest message of this name that passes the check. */
  async next<T>(event: string, check: (data: T) => void = () => {}): Promise<T> {
    let found: T | undefined;
    await eventually(() => {
      found = this.events.findLast((it) => it.event === event)?.data as T | undefined;
      if (found === undefined) throw new Error(`no event ${event} yet`);
      check(found);
    });
    return found as T;
  }

  async #read(response: Response): Promise<void> {
    let rest = '';
    try {
      for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
        const parts = (rest + Buffer.from(chunk).toString()).split('\n\n');
        rest = parts.pop() as string;
        for (const part of parts) this.#note(part);
      }
    } catch {
      // closed by the test
    }
  }

  #note(text: string): void {
    const [, event, data] = /^event: (.*)\ndata: (.*)$/.exec(text) ?? [];
    if (event !== undefined) this.events.push({ event, data: JSON.parse(data as string) });
  }
}
