import type { Clock } from '../core/time/clock.js';
import { InMemoryLocks } from './in-memory-locks.js';

/** The keyspace of one or several services; its locks are created on first use. */
interface Keyspace {
  locks?: InMemoryLocks;
}

/** The keyspace of services that no module has created. */
const OF_UNIT_TESTS = '';

/**
 * Decides which lock services of a test exclude each other: those with the same name, like replicas of one application,
 * and those whose modules name the same keyspace. A keyspace in use never changes.
 */
export class ServiceKeyspaces {
  readonly #clock: Clock;
  /**
   * The service without a name is always present, so that a test can hold its keys before the application is created.
   */
  readonly #ofService = new Map<string | undefined, Keyspace>([[undefined, {}]]);
  readonly #at = new Map<string, Keyspace>([
    [OF_UNIT_TESTS, this.#ofService.get(undefined) as Keyspace],
  ]);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @param name as given by its module. @default that of unit tests */
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

  /** The services that use this keyspace. */
  servicesWith(locks: InMemoryLocks): (string | undefined)[] {
    return [...this.#ofService]
      .filter(([, keyspace]) => keyspace.locks === locks)
      .map(([name]) => name);
  }

  /**
   * Joins the keyspace of a service already known, for example because a test held its keys, with the one that its
   * module names.
   */
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
