import { answerOf } from './release-dialog.js';

export type StreamState = 'connecting' | 'live' | 'paused' | 'hidden' | 'lost';

/** What listens to the stream of events. */
export interface StreamListener {
  message(event: 'hello' | 'look' | 'log', data: unknown): void;
  state(state: StreamState, reason: string): void;
}

/** How long to wait before a stream that was refused is asked for again. */
const RETRY_MS = 5_000;

/** How long a connection may be away unseen: the server ends it again and again, to ask who watches. */
const UNSEEN_MS = 3_000;

/** The stream of events, while the page is seen and not paused. */
export class Stream {
  readonly #listener: StreamListener;
  #source: EventSource | undefined;
  #retry: number | undefined;
  #away: number | undefined;
  #filter = '*';
  #isPaused = false;

  constructor(listener: StreamListener) {
    this.#listener = listener;
    document.addEventListener('visibilitychange', () => this.#connect());
    this.#connect();
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  set isPaused(isPaused: boolean) {
    this.#isPaused = isPaused;
    this.#connect();
  }

  set filter(filter: string) {
    if (filter === this.#filter) return;
    this.#filter = filter;
    this.#connect();
  }

  #connect(): void {
    clearTimeout(this.#retry);
    this.#isBack();
    this.#source?.close();
    this.#source = undefined;
    if (this.#isPaused) return this.#listener.state('paused', '');
    if (document.hidden) return this.#listener.state('hidden', '');
    this.#listener.state('connecting', '');
    const source = new EventSource(this.#url);
    this.#source = source;
    for (const event of ['hello', 'look', 'log'] as const) {
      source.addEventListener(event, ({ data }: MessageEvent<string>) => {
        if (source !== this.#source) return;
        if (event === 'hello') {
          this.#isBack();
          this.#listener.state('live', '');
        }
        this.#listener.message(event, JSON.parse(data));
      });
    }
    source.addEventListener('error', () => {
      if (source !== this.#source) return;
      if (source.readyState === EventSource.CLOSED) {
        this.#isBack();
        return void this.#refused(source);
      }
      this.#away ??= window.setTimeout(() => this.#listener.state('connecting', ''), UNSEEN_MS);
    });
  }

  #isBack(): void {
    clearTimeout(this.#away);
    this.#away = undefined;
  }

  /** Finds out why: an EventSource does not tell. */
  async #refused(source: EventSource): Promise<void> {
    const abort = new AbortController();
    const reason = await fetch(this.#url, { signal: abort.signal })
      .then((response) => (response.ok ? '' : answerOf(response)))
      .catch(() => 'The server cannot be reached.');
    abort.abort();
    if (source !== this.#source) return;
    this.#listener.state('lost', reason);
    this.#retry = window.setTimeout(() => this.#connect(), RETRY_MS);
  }

  get #url(): string {
    const query = new URLSearchParams(location.search);
    query.set('filter', this.#filter);
    return `events?${query}`;
  }
}
