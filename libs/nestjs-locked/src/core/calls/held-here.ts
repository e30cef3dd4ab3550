import type { Lock } from '../lock.js';
import type { ReentryLevel } from './reentry-level.js';

/** A lock that may be the current one of a context. */
export interface CurrentLock extends Lock {
  /** Whether its release has begun. */
  readonly isReleased: boolean;
}

/**
 * The lock of a call, as its async context refers to it. A timer or a later call started there may keep the reference
 * for ever, so it is emptied when the lock is released.
 */
export class HeldHere {
  #lock: CurrentLock | undefined;
  /** Of the call, also after its release. */
  readonly keys: readonly string[];
  /** The re-entry levels by key. */
  readonly #levels: Map<string, ReentryLevel>;

  constructor(lock: CurrentLock, levels: readonly ReentryLevel[]) {
    this.#lock = lock;
    this.keys = lock.keys;
    this.#levels = new Map(levels.map((level) => [level.hold.key, level]));
  }

  /** The lock of the call; undefined after its release. */
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
