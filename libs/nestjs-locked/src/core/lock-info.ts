/** What is known about a held key, at one moment. */
export interface LockInfo {
  /** Without the prefix: `stock:42`. */
  readonly key: string;
  /** Undefined if a client of another kind holds it, or if nobody does and the key is only kept (`holdAtLeastMs`). */
  readonly holder: LockHolder | undefined;
  /** When the holder's process got the lease, by Redis' clock; its calls may have passed it on since. */
  readonly since: Date | undefined;
  /** How long the lease lasts if it is not renewed, in milliseconds; Infinity if it has no end. */
  readonly remainingMs: number;
  /** How many other processes wait. */
  readonly waiters: number;
}

/** Who holds a key, as far as Redis knows. */
export interface LockHolder {
  /** The lock service that has it; a process has one for each lock module. */
  readonly processId: string;
  /** The name of its machine or container, if it has said so. */
  readonly host: string | undefined;
  /** Its process id there, if it has said so. */
  readonly pid: number | undefined;
  /** The `label` of the call. */
  readonly label: string | undefined;
}
