import { watchAbort } from './abort-watch.js';

/**
 * A signal that aborts with the first of several others, until it is detached from them.
 *
 * `AbortSignal.any` cannot be detached: as soon as its signal has a listener, Node keeps that signal in memory until
 * one of the others aborts, which most never do.
 */
export class JointSignal {
  readonly #controller = new AbortController();
  readonly #forget: readonly (() => void)[];

  constructor(sources: readonly AbortSignal[]) {
    const abortWith = (source: AbortSignal): void => this.#controller.abort(source.reason);
    const aborted = sources.find((source) => source.aborted);
    if (aborted !== undefined) abortWith(aborted);
    this.#forget =
      aborted === undefined
        ? sources.map((source) => watchAbort(source, () => abortWith(source)))
        : [];
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The other signals no longer abort it or keep it in memory. */
  detach(): void {
    for (const forget of this.#forget) forget();
  }
}
