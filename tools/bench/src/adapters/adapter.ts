/** Gives back what `acquire` has taken. It settles when Redis has answered. */
export type Release = () => Promise<unknown>;

/** Locks that are open in this process. */
export interface OpenLocks {
  /** Takes the key, does the work, and gives the key back. */
  readonly hold: (key: string, work: () => Promise<void>) => Promise<void>;
  /** Other ways to do the same, by name. */
  readonly forms?: Readonly<Record<string, OpenLocks['hold']>>;
  close(): Promise<void>;
}

/** One way to lock. Its package is loaded by `open` only, so that a process has no other locks in its memory. */
export interface Adapter {
  readonly id: string;
  readonly name: string;
  /** The floor is the least that a lock on Redis can cost; peers are other libraries. */
  readonly kind: 'floor' | 'peer' | 'ours';
  /** Which settings it has here, and where they come from. */
  readonly settings: string;
  open(url: string): Promise<OpenLocks>;
}

/** How many hold a key at once in the form `permits`, and in the form `segments`. */
export const PERMITS = 5;
export const SEGMENTS = 10;

/** How long a lock outlives its holder, for all of them: longer than any round. */
export const LEASE_MS = 30_000;

/** The usual form of a lock: take, work, give back. */
export function holdBy(acquire: (key: string) => Promise<Release>): OpenLocks['hold'] {
  return async (key, work) => {
    const release = await acquire(key);
    try {
      await work();
    } finally {
      await release();
    }
  };
}
