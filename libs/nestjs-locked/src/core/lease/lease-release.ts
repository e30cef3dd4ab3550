import type { WaitingCall } from './waiting-call.js';
import type { Lease } from './lease.js';
import type { LocalQueue } from './local-queue.js';
import type { EngineParts } from './engine-parts.js';
import type { ReleaseCommand } from '../store/lock-store.js';
import { LockStoreError } from '../lock.errors.js';
import { unreachable } from '../runtime/unreachable.js';

/** How an ended lease is given back: released, handed over while its queue asks again, or freed after a loss. */
export class LeaseRelease {
  readonly #parts: EngineParts;
  readonly #queue: LocalQueue;
  readonly #token: string;

  constructor(parts: EngineParts, queue: LocalQueue, token: string) {
    this.#parts = parts;
    this.#queue = queue;
    this.#token = token;
  }

  /**
   * @param used the highest fencing token that was handed out
   * @param until when the lease ends by itself
   * @param keepMs the key stays taken for so long, by nobody
   * @returns whether it was ours until now @throws LockStoreError if nobody knows
   */
  async release(used: number, until: number, keepMs: number): Promise<boolean> {
    const reply = await this.#parts.cleanUp.release(
      this.#command(used, keepMs),
      until,
      this.forget,
    );
    switch (reply.kind) {
      case 'released':
        return true;
      case 'lost':
        return false;
      case 'unknown':
        throw this.#unknown(reply.cause);
      default:
        return unreachable(reply);
    }
  }

  /** Others have waited long enough: hands the lease over and stands in the queue again, in one step. */
  async requeue(lease: Lease, next: WaitingCall, used: number, until: number): Promise<boolean> {
    const old = this.#command(used);
    const { leaseMs } = next.options;
    const reply = await this.#queue.requeue(lease, leaseMs, (newToken) =>
      this.#parts.store.requeue({ ...old, newToken, leaseMs }),
    );
    if (reply.kind !== 'unknown') {
      this.forget();
      return reply.wasLost !== true;
    }
    void this.#parts.cleanUp.release(old, until, this.forget);
    throw this.#unknown(reply.cause);
  }

  /** Frees a lease that was perhaps only believed lost, now that the work under it has ended. */
  afterLoss(used: number, until: number): void {
    void this.#parts.cleanUp.release(this.#command(used), until, this.forget);
  }

  /** The token's tenure is over: messages about it concern nobody. */
  readonly forget = (): void => this.#parts.tokens.forget(this.#token);

  #command(used: number, keepMs = 0): ReleaseCommand {
    return { key: this.#queue.key, token: this.#token, used, keepMs };
  }

  #unknown(cause: LockStoreError): LockStoreError {
    const { key } = this.#queue;
    this.#parts.report({ type: 'release-unknown', key, cause });
    return new LockStoreError(
      `Cannot tell whether lock '${key}' was released: ${cause.message}; it ends by itself after its lease`,
      key,
      { cause },
    );
  }
}
