/** A lock of another library, held. */
export interface ForeignHold {
  /** What it wrote into the key. */
  readonly value: string;
  /** @returns false when the library says that the lock is no longer its own */
  release(): Promise<boolean>;
  /** @returns false when the library says that the lock is no longer its own */
  extend(ms: number): Promise<boolean>;
}

export interface ForeignAcquire {
  /** The whole Redis key. */
  readonly key: string;
  /** Without it, the key has no expiry; only for libraries that can do that. */
  readonly ttlMs?: number;
  /** How long it tries; 0 = once. */
  readonly waitMs: number;
}

export interface ForeignRace {
  readonly key: string;
  /** A number in Redis: read, pause, write, under the lock. */
  readonly counter: string;
  /** A list in Redis: each turn appends `theirs`. */
  readonly order: string;
  readonly callers: number;
  readonly times: number;
  readonly pauseMs: number;
  /** The longest pause of a caller between two turns: without pauses, whoever has the lock keeps it. */
  readonly restMs: number;
}

/** Another library's locks, through that library. */
export interface ForeignLocks {
  /** @returns undefined when somebody else had it all the time */
  acquire(order: ForeignAcquire): Promise<ForeignHold | undefined>;
  race(order: ForeignRace): Promise<void>;
  close(): Promise<void>;
}
