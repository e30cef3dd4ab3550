import type { Clock } from '../core/time/clock.js';
import { InMemoryLocks } from './in-memory-locks.js';

/** Where the keys of one or several services are; the locks are made when they are first used. */
interface Keyspace {
  locks?: InMemoryLocks;
}

/** Where services have their keys that no module has made. */
const OF_UNIT_TESTS = '';

/**
 * Which lock services of a test exclude each other: those that have the same name, as replicas of one application have,
 * and those whose modules name the same keyspace. What is in use once never moves.
 */
export class ServiceKeyspaces {
  readonly #clock: Clock;
  /** The service without a name is always here, so that a test can hold its keys before the application is made. */
  readonly #ofService = new Map<string | undefined, Keyspace>([[undefined, {}]]);
  readonly #at = new Map<string, Keyspace>([
    [OF_UNIT_TESTS, this.#ofService.get(undefined) as Keyspace],
  ]);

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
    const keyspace = this.#ofService.get(service);
    return keyspace && this.#locksIn(keyspace);
  }

  /** The services that have their keys there. */
  servicesWith(locks: InMemoryLocks): (string | undefined)[] {
    return [...this.#ofService]
      .filter(([, keyspace]) => keyspace.locks === locks)
      .map(([name]) => name);
  }

  /** A service was known, such as because a test has held its keys, before a module says where they are. */
  #join(own: Keyspace, there: Keyspace): void {
    const locks = own.locks ?? this.#locksIn(there);
    own.locks ??= locks;
    there.locks ??= locks;
  }

  #locksIn(keyspace: Keyspace): InMemoryLocks {
    keyspace.locks ??= new InMemoryLocks(this.#clock);
    return keyspace.locks;
  }
}
