/**
 * Renews leases from a thread of its own, so that they are kept while the event loop of this process is blocked. What
 * it was answered is in shared memory, where the blocked thread reads it, too.
 */
export interface RenewalBackup {
  /** The backup of one lease; it does nothing before `cover`. */
  of(key: string, token: string): LeaseBackup;
}

/** When a lease is renewed in the place of this thread. */
export interface CoverTerms {
  /** How long the lease should last from each renewal on, in milliseconds. */
  readonly leaseMs: number;
  /** Until when it is ours. An answer that comes later changes nothing. */
  readonly endsAt: number;
  /** From when on it is renewed, if this thread has not set other terms by then. */
  readonly dueAt: number;
  /** When it must not be renewed any more. */
  readonly until: number;
}

/** A renewal that was answered "renewed". */
export interface BackupRenewal {
  /** When it was sent, on the monotonic clock of this thread. */
  readonly sentAt: number;
  readonly leaseMs: number;
}

/** The backup of one lease. */
export interface LeaseBackup {
  /** Renews the lease on these terms from now on. */
  cover(terms: CoverTerms): void;
  /**
   * What it was answered since the last call. `refused` means that the lease is not ours there, and that it is renewed
   * no more; only this thread can decide whether it is lost.
   * @param ends whether no answer may come after this call, unless it returns one
   */
  latest(ends: boolean): BackupRenewal | 'refused' | undefined;
  /** Renews it no more, and hears no answer, until `cover`. */
  uncover(): void;
  /** The same for good. */
  end(): void;
}
