import { LockConfigError } from '../../../core/lock.errors.js';
import type { Clock } from '../../../core/time/clock.js';
import { isUnknownCommand } from '../../scripts/reply-error.js';
import type { RequiredReplicas } from '../server/required-replicas.js';
import type { CommandConnection } from '../traffic/command-connection.js';
import { acknowledgedBy, longestWaitMs, waitCommand } from '../traffic/wait-command.js';

export interface ReplicaProofOptions {
  readonly commands: CommandConnection;
  readonly clock: Clock;
  readonly replicas: RequiredReplicas;
  /** How long a command may take. */
  readonly timeLimitMs: number;
}

/** The pause before the replicas are asked again. */
const RETRY_MS = 250;

/**
 * Proves that as many replicas as a lease requires acknowledge writes. A lack of them may pass: a replica that restarts
 * while the application starts is back in a moment.
 */
export class ReplicaProof {
  readonly #options: ReplicaProofOptions;
  #cancelPause: () => void = () => {};
  #isClosed = false;

  constructor(options: ReplicaProofOptions) {
    this.#options = options;
  }

  /**
   * Resolves when they have acknowledged the last write; asks them repeatedly until then, or until `close`.
   * @param failed called with the reason of each retry
   */
  async run(failed: (error: unknown) => void): Promise<void> {
    const { clock } = this.#options;
    for (;;) {
      const problem = await this.#ask();
      if (problem === undefined || this.#isClosed) return;
      failed(problem);
      await new Promise<void>((resolve) => {
        const cancel = clock.after(RETRY_MS, resolve);
        this.#cancelPause = () => {
          cancel();
          resolve();
        };
      });
    }
  }

  /** Ends the wait. */
  close(): void {
    this.#isClosed = true;
    this.#cancelPause();
  }

  /** @returns the reason why they have not acknowledged it */
  async #ask(): Promise<unknown> {
    const { commands, replicas: required, timeLimitMs } = this.#options;
    const { replicas, aof } = required;
    const limitMs = longestWaitMs(required, timeLimitMs);
    const outcome = await commands.run(waitCommand(required, limitMs), (ended) => ended);
    if (outcome.kind === 'failed') return explained(outcome.cause.cause ?? outcome.cause, aof);
    const count = acknowledgedBy(outcome.reply);
    if (count >= replicas) return undefined;
    const have = aof ? 'have the write on disk' : 'have acknowledged the write';
    return new FewReplicas(
      `waitReplicas requires ${replicas}, but only ${count} ${have} within ${limitMs} ms`,
    );
  }
}

/** Too few replicas have acknowledged the write. */
export class FewReplicas extends Error {}

function explained(cause: unknown, aof: boolean): unknown {
  if (!isUnknownCommand(cause)) return cause;
  return new LockConfigError(
    aof
      ? 'Invalid option waitReplicas: this server does not know WAITAOF; use Redis 7.2 or newer, or leave out aof'
      : 'Invalid option waitReplicas: this server does not know WAIT; leave out waitReplicas',
    undefined,
    { cause },
  );
}
