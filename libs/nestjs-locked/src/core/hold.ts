import type { Lease } from './lease.js';
import type { Lock } from './lock.js';
import { LockLostError, type LockLostReason } from './lock.errors.js';

const WHY: Record<LockLostReason, string> = {
  expired: 'its lease could not be renewed in time',
  stolen: 'Redis says that it is no longer ours; the key was deleted, overwritten or taken over',
  'max-hold': 'the work took longer than maxHoldMs',
  shutdown: 'the application was closed while the work still ran',
};

/** One caller's hold: a view on the lease that was current when it was handed out. */
export class Hold implements Lock {
  readonly key: string;
  readonly fencingToken: number;
  readonly #lease: Lease;
  #controller: AbortController | undefined;
  #lost: LockLostError | undefined;
  #released: Promise<boolean> | undefined;
  #onReleased: (() => void) | undefined;

  constructor(lease: Lease, fencingToken: number) {
    this.#lease = lease;
    this.key = lease.name;
    this.fencingToken = fencingToken;
  }

  get signal(): AbortSignal {
    this.#lease.noticeDeadline();
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#lost !== undefined) this.#controller.abort(this.#lost);
    }
    return this.#controller.signal;
  }

  get isHeld(): boolean {
    return this.remainingMs() > 0;
  }

  remainingMs(): number {
    if (this.#released !== undefined || this.#lost !== undefined) return 0;
    return this.#lease.remainingMs();
  }

  assertHeld(): void {
    if (this.isHeld) return;
    this.#lease.noticeDeadline();
    if (this.#lost !== undefined)
      throw lostError(this.key, this.#lost.reason, { cause: this.#lost });
    if (this.#released !== undefined) {
      throw new LockLostError(
        `Lock '${this.key}' is not held: it was released`,
        this.key,
        'expired',
      );
    }
  }

  release(): Promise<boolean> {
    this.#released ??= this.#lease.endHold(this).finally(this.#onReleased);
    return this.#released;
  }

  /** Calls back when the release has been answered. */
  onReleased(callback: () => void): void {
    this.#onReleased = callback;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.settle();
  }

  /** Releases without ever throwing: what is to be said is reported by the lease. */
  async settle(): Promise<void> {
    await this.release().catch(() => {});
  }

  /** Called by the lease, once. */
  lose(reason: LockLostReason): LockLostError {
    this.#lost = lostError(this.key, reason);
    this.#controller?.abort(this.#lost);
    return this.#lost;
  }
}

function lostError(key: string, reason: LockLostReason, options?: ErrorOptions): LockLostError {
  return new LockLostError(
    `Lock '${key}' was lost (${reason}): ${WHY[reason]}`,
    key,
    reason,
    options,
  );
}
