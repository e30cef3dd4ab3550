/** Short, so that a minute has many of them. */
export const LEASE_MS = 800;

/** Nobody may have to wait so long, whatever happens. */
export const WAIT_MS = 20_000;

/** What a worker is told to do. */
export interface WorkerTask {
  readonly name: string;
  readonly seed: number;
  readonly redisUrl: string;
  readonly history: string;
  readonly keys: readonly string[];
  readonly callers: number;
  readonly lingerMs: number;
  readonly localHandovers: number;
  /** Breaks the lock on purpose: the checker must see it. */
  readonly breakRule: boolean;
}
