import type { Lock } from '../lock.js';
import type { Section } from './section.js';

/** A lock that may be the current one of a context. */
export interface CurrentLock extends Lock {
  /** Whether its release has begun. */
  readonly isReleased: boolean;
  /** Whether it is known to be held no longer. */
  readonly isOver: boolean;
}

/**
 * What a call was given, as its async context keeps it. Whatever was begun there, such as a timer, may keep it for
 * ever, and the next call as well, so it is emptied when the lock is released.
 */
export class HeldHere {
  #lock: CurrentLock | undefined;
  /** By key. */
  readonly #sections: Map<string, Section>;

  constructor(lock: CurrentLock, sections: readonly Section[]) {
    this.#lock = lock;
    this.#sections = new Map(sections.map((section) => [section.hold.key, section]));
  }

  /** What the call was given that holds the keys. */
  get lock(): CurrentLock | undefined {
    return this.#lock;
  }

  get sections(): ReadonlyMap<string, Section> {
    return this.#sections;
  }

  released(): void {
    this.#lock = undefined;
    this.#sections.clear();
  }
}
