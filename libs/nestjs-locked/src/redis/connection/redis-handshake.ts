import { LockAbortedError, LockConfigError, LockStoreError } from '../../core/lock.errors.js';
import type { Clock } from '../../core/time/clock.js';
import { isFromCluster, lacksRights, refusesUser } from '../scripts/reply-error.js';
import { reasonOf } from './reason-of.js';
import { clusterError, type ServerInfo } from './server-info.js';

/** How long the start of the application may wait for Redis, in milliseconds. */
const LIMIT_MS = 10_000;

/** Every command that we or our scripts send. */
const COMMANDS =
  'eval evalsha script|load subscribe publish pubsub ping info time get set del scan exists pexpire pttl zadd zrem zscore zcard zrange zrevrange';

interface Failure {
  readonly cause: unknown;
}

/**
 * The start: everything that is needed must work before anything is locked. A trouble that may pass is waited out. One
 * that will not pass, such as a missing right, ends the start at once.
 */
export class RedisHandshake {
  readonly #clock: Clock;
  /** The keys and channels that the Redis user needs, in the words of ACL SETUSER. */
  readonly #rights: string;
  readonly #until: number;
  readonly #refused: Promise<Failure>;
  #refuse!: (failure: Failure) => void;
  /** A server has admitted the connection for commands. */
  readonly isConnected: Promise<ServerInfo>;
  connected!: (server: ServerInfo) => void;
  /** The inbox is subscribed. */
  readonly isSubscribed: Promise<void>;
  subscribed!: () => void;
  /** A message has arrived in the inbox. */
  readonly isProved: Promise<void>;
  proved!: () => void;
  #lastError: unknown;

  constructor(clock: Clock, rights: string) {
    this.#clock = clock;
    this.#rights = rights;
    this.#until = clock.now() + LIMIT_MS;
    this.#refused = new Promise((resolve) => (this.#refuse = resolve));
    this.isConnected = new Promise((resolve) => (this.connected = resolve));
    this.isSubscribed = new Promise((resolve) => (this.subscribed = resolve));
    this.isProved = new Promise((resolve) => (this.proved = resolve));
  }

  /** Something went wrong on a connection. A refusal ends the handshake; anything else may pass. */
  failed(error: unknown): void {
    this.#lastError = error;
    if (isRefusal(error)) this.#refuse({ cause: error });
  }

  /** The locks are closed before they were open, so nobody waits for Redis any more. */
  closed(): void {
    this.failed(new LockAbortedError('Cannot open the locks: the application is shutting down'));
  }

  /**
   * Waits for one step, at most for the time that is left.
   * @throws LockConfigError if Redis refuses what is needed · LockStoreError if it does not answer · LockAbortedError
   */
  async step<T>(action: string, done: Promise<T>): Promise<T> {
    const leftMs = Math.max(0, Math.ceil(this.#until - this.#clock.now()));
    let cancel = (): void => {};
    const tooLate = new Promise<Failure>((resolve) => {
      cancel = this.#clock.after(leftMs, () =>
        resolve({ cause: this.#lastError ?? new Error('Redis did not answer') }),
      );
    });
    const success = done.then((value) => ({ value }));
    const outcome = await Promise.race([success, this.#refused, tooLate]).finally(cancel);
    if ('cause' in outcome) throw this.#explained(action, outcome.cause);
    return outcome.value;
  }

  #explained(action: string, cause: unknown): Error {
    if (cause instanceof LockConfigError || cause instanceof LockAbortedError) return cause;
    const reason = reasonOf(cause);
    if (isFromCluster(cause)) return clusterError(cause);
    if (lacksRights(cause)) {
      const commands = COMMANDS.replace(/\S+/g, '+$&');
      return new LockConfigError(
        `Cannot ${action}: the Redis user lacks rights: ${reason}; it needs these keys, channels and commands: ACL SETUSER <user> ${this.#rights} ${commands}`,
        undefined,
        { cause },
      );
    }
    if (refusesUser(cause)) {
      return new LockConfigError(
        `Cannot ${action}: Redis refuses user or password: ${reason}; check them in 'connection'`,
        undefined,
        { cause },
      );
    }
    return new LockStoreError(
      `Cannot ${action} within ${LIMIT_MS} ms: ${reason}; check the address in 'connection', and that Redis runs`,
      undefined,
      { cause },
    );
  }
}

/** Whether trying again is of no use, because the answer would be the same. */
function isRefusal(error: unknown): boolean {
  return (
    error instanceof LockConfigError ||
    error instanceof LockAbortedError ||
    lacksRights(error) ||
    refusesUser(error) ||
    isFromCluster(error)
  );
}
