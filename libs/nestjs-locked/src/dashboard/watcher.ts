import type { ServerResponse } from 'node:http';
import { systemClock } from '../core/time/clock.js';
import type { DashboardRole } from './dashboard-messages.js';

/**
 * After that, the browser connects again, and whether it may look is asked again: of the new request, because the old
 * one has the session of its beginning.
 */
const LONGEST_MS = 30_000;

/** How long a client may read nothing. */
const STALLED_MS = 30_000;

/** What a stream of server-sent events is answered with. A proxy must neither keep it back nor compress it. */
export const STREAM_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store, no-transform',
  'x-accel-buffering': 'no',
};

/**
 * Somebody who watches. Every message is a whole state, so one that the connection has no room for is left out: nothing
 * is kept in memory for a slow client.
 */
export class Watcher {
  readonly filter: string;
  readonly role: DashboardRole;
  /** The state of the log that it has been sent. */
  sentLog: object | undefined;
  readonly #response: ServerResponse;
  readonly #onEnd: () => void;
  #cancel: () => void;
  #stalledAt: number | undefined;

  /** @param onEnd called when nobody watches here any more */
  constructor(response: ServerResponse, filter: string, role: DashboardRole, onEnd: () => void) {
    this.filter = filter;
    this.role = role;
    this.#response = response;
    this.#onEnd = onEnd;
    this.#cancel = systemClock.after(LONGEST_MS, () => this.end());
    response.once('close', () => {
      this.#cancel();
      onEnd();
    });
    response.on('error', () => {}); // 'close' follows
    response.write('retry: 1000\n\n');
  }

  /** @param json without line breaks @returns whether it was sent */
  send(event: string, json: string): boolean {
    // HTTP/2 has no writableNeedDrain.
    if (this.#response.writableLength > this.#response.writableHighWaterMark) {
      const now = systemClock.now();
      this.#stalledAt ??= now;
      if (now - this.#stalledAt > STALLED_MS) this.#response.destroy();
      return false;
    }
    this.#stalledAt = undefined;
    this.#response.write(`event: ${event}\ndata: ${json}\n\n`);
    return true;
  }

  /** Also for a client that does not read the end. */
  end(): void {
    this.#onEnd();
    this.#response.end();
    this.#cancel();
    const cancel = systemClock.after(STALLED_MS, () => this.#response.destroy());
    cancel.mayEnd?.(true);
    this.#cancel = cancel;
  }
}
