import type { Queued } from '../../core/store/lock-store.js';

/** A request of this process that stands in line on the nodes. */
export interface WaitingPlace {
  /** What stands in line: the first token of the request. */
  readonly place: string;
  /** Since when, in microseconds since 1970, by the clock of this process. */
  readonly score: number;
  /** The token of its last try. */
  token: string;
  /** How many rounds in a row nobody got enough votes. */
  tries: number;
  /** How many rounds it has had. */
  rounds: number;
}

/** The requests of this process that wait. A token changes with each try, and the place stays. */
export class WaitingPlaces {
  readonly #byPlace = new Map<string, WaitingPlace>();
  readonly #byToken = new Map<string, WaitingPlace>();

  /** @param score of a new place @param old the token of its last try, if it waits */
  take(token: string, score: Queued['position'], old = token): WaitingPlace {
    const waiting = this.of(old) ?? {
      place: token,
      score,
      token,
      tries: 0,
      rounds: 0,
    };
    this.#byToken.delete(waiting.token);
    waiting.token = token;
    this.#byToken.set(token, waiting);
    this.#byPlace.set(waiting.place, waiting);
    return waiting;
  }

  of(token: string): WaitingPlace | undefined {
    return this.#byToken.get(token);
  }

  at(place: string): WaitingPlace | undefined {
    return this.#byPlace.get(place);
  }

  /** Called when the request has ended. */
  leave(waiting: WaitingPlace): void {
    this.#byToken.delete(waiting.token);
    this.#byPlace.delete(waiting.place);
  }
}
