import type { Lock } from '../lock.js';
import type { ReentryLevel } from './reentry-level.js';

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
  readonly #levels: Map<string, ReentryLevel>;

  constructor(lock: CurrentLock, levels: readonly ReentryLevel[]) {
    this.#lock = lock;
    this.#levels = new Map(levels.map((level) => [level.hold.key, level]));
  }

  /** What the call was given that holds the keys. */
  get lock(): CurrentLock | undefined {
    return this.#lock;
  }

  get levels(): ReadonlyMap<string, ReentryLevel> {
    return this.#levels;
  }

  released(): void {
    this.#lock = undefined;
    this.#levels.clear();
  }
}
