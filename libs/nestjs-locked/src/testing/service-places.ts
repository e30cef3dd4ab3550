import type { Clock } from '../core/time/clock.js';
import { InMemoryLocks } from './in-memory-locks.js';

/** Where the keys of one or several services are; the locks are made when they are first used. */
interface Place {
  locks?: InMemoryLocks;
}

/** Where services have their keys that no module has made. */
const OF_UNIT_TESTS = '';

/**
 * Which lock services of a test exclude each other: those that have the same name, as replicas of one application have,
 * and those whose modules say that their keys are in the same place. What is in use once never moves.
 */
export class ServicePlaces {
  readonly #clock: Clock;
  /** The service without a name is always here, so that a test can hold its keys before the application is made. */
  readonly #ofService = new Map<string | undefined, Place>([[undefined, {}]]);
  readonly #at = new Map<string, Place>([[OF_UNIT_TESTS, this.#ofService.get(undefined) as Place]]);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @param name as its module says. @default that of unit tests */
  add(service: string | undefined, name = OF_UNIT_TESTS): void {
    const there = this.#at.get(name);
    const own = this.#ofService.get(service) ?? there ?? {};
    this.#ofService.set(service, own);
    if (there === undefined) this.#at.set(name, own);
    else this.#join(own, there);
  }

  /** @returns undefined if there is no such service */
  locksOf(service: string | undefined): InMemoryLocks | undefined {
    const place = this.#ofService.get(service);
    return place && this.#locksIn(place);
  }

  /** The services that have their keys there. */
  servicesWith(locks: InMemoryLocks): (string | undefined)[] {
    return [...this.#ofService].filter(([, place]) => place.locks === locks).map(([name]) => name);
  }

  /** A service was known, such as because a test has held its keys, before a module says where they are. */
  #join(own: Place, there: Place): void {
    const locks = own.locks ?? this.#locksIn(there);
    own.locks ??= locks;
    there.locks ??= locks;
  }

  #locksIn(place: Place): InMemoryLocks {
    place.locks ??= new InMemoryLocks(this.#clock);
    return place.locks;
  }
}
