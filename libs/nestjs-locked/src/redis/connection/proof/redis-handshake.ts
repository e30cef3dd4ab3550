import { LockAbortedError, LockConfigError, LockStoreError } from '../../../core/lock.errors.js';
import { atMost } from '../../../core/time/at-most.js';
import type { Clock } from '../../../core/time/clock.js';
import {
  isFromCluster,
  isNotInCluster,
  lacksRights,
  refusesUser,
} from '../../scripts/reply-error.js';
import { isClosing, reasonOf } from '../server/reason-of.js';
import {
  clusterError,
  noClusterError,
  type ServerInfo,
  unsuitableServer,
} from '../server/server-info.js';
import { SlowLinkError } from '../silence/slow-link.js';
import { remedyOf } from './remedy-of.js';
import { wrongServer } from './wrong-server.js';

export interface RedisHandshakeOptions {
  readonly clock: Clock;
  /** Where the connections lead, for messages. */
  readonly server: string;
  /** What the Redis user needs, in the words of ACL SETUSER. */
  readonly rights: () => string;
  readonly usesTls: boolean;
  /** Whether the server is to be a node of a Redis Cluster. */
  readonly inCluster: boolean;
  /** The total time limit, in milliseconds. */
  readonly limitMs: number;
  /** Called with each failure that may pass. */
  readonly awaited: (cause: LockStoreError) => void;
}

interface Failure {
  readonly cause: unknown;
}

const CHECK_ADDRESS = "check the address in 'connection', and that Redis runs";

/** A server that speaks TLS closes a connection without it. One that does not waits for the rest of a command. */
const CHECK_TLS = {
  used: `${CHECK_ADDRESS}; if this port does not speak TLS, write redis:// instead of rediss://`,
  unused: `${CHECK_ADDRESS}; if this port expects TLS, write rediss:// instead of redis://`,
};

/**
 * The start: everything required must work before anything is locked. Failures that may pass are retried. Permanent
 * ones, such as a missing right, end the start at once.
 */
export class RedisHandshake {
  readonly #options: RedisHandshakeOptions;
  readonly #startedAt: number;
  readonly #refused: Promise<Failure>;
  #refuse!: (failure: Failure) => void;
  /** Resolves when a server has admitted the connection for commands. */
  readonly isConnected: Promise<ServerInfo>;
  connected!: (server: ServerInfo) => void;
  /** Resolves when the inbox is subscribed. */
  readonly isSubscribed: Promise<void>;
  subscribed!: () => void;
  /** Resolves when a message has arrived in the inbox. */
  readonly isProved: Promise<void>;
  proved!: () => void;
  #lastError: unknown;
  readonly #noAnswer = new Error('Redis did not answer');

  constructor(options: RedisHandshakeOptions) {
    this.#options = options;
    this.#startedAt = options.clock.now();
    this.#refused = new Promise((resolve) => (this.#refuse = resolve));
    this.isConnected = new Promise((resolve) => (this.connected = resolve));
    this.isSubscribed = new Promise((resolve) => (this.subscribed = resolve));
    this.isProved = new Promise((resolve) => (this.proved = resolve));
  }

  /** Called for a failure on a connection. A refusal ends the handshake; anything else may pass. */
  failed(reason: unknown): void {
    const { server, awaited } = this.#options;
    const error = unsuitableServer(reason) ?? wrongServer(reason, server) ?? reason;
    // A slow link is also why other steps took too long.
    if (!(this.#lastError instanceof SlowLinkError)) this.#lastError = error;
    if (this.#isRefusal(error)) this.#refuse({ cause: error });
    else awaited(new LockStoreError(this.#reasonAndAdvice(error), undefined, { cause: error }));
  }

  /** Ends the handshake if the locks are closed before they are open. */
  closed(): void {
    this.failed(new LockAbortedError('Cannot open the locks: the application is shutting down'));
  }

  /**
   * Waits for one step, at most for the rest of the time.
   * @param remedy what to do if it takes longer
   * @throws LockConfigError if Redis refuses what the locks need · LockStoreError if it does not answer ·
   * LockAbortedError
   */
  async step<T>(action: string, done: Promise<T>, remedy?: string): Promise<T> {
    const { clock, limitMs } = this.#options;
    const leftMs = Math.max(0, Math.ceil(this.#startedAt + limitMs - clock.now()));
    const success = done.then((value) => ({ value }));
    const outcome =
      (await atMost(clock, leftMs, Promise.race([success, this.#refused]))) ?? this.#tooLate;
    if ('cause' in outcome) throw this.#explained(action, outcome.cause, remedy);
    return outcome.value;
  }

  get #tooLate(): Failure {
    return { cause: this.#lastError ?? this.#noAnswer };
  }

  #explained(action: string, cause: unknown, remedy?: string): Error {
    if (cause instanceof LockConfigError || cause instanceof LockAbortedError) return cause;
    const reason = reasonOf(cause);
    const { clock, server, rights } = this.#options;
    if (this.#isUnexpectedNode(cause)) return clusterError(cause);
    if (isNotInCluster(cause)) return noClusterError(cause);
    if (lacksRights(cause)) {
      return new LockConfigError(
        `Cannot ${action}: the Redis user lacks rights: ${reason}; it needs these keys, channels and commands: ACL SETUSER <user> ${rights()}`,
        undefined,
        { cause },
      );
    }
    if (refusesUser(cause)) {
      return new LockConfigError(
        /NOAUTH/i.test(reason)
          ? `Cannot ${action}: Redis refuses user or password: it asks for a password, and got none (NOAUTH); write redis://:password@host:6379, or { host, port, password }`
          : `Cannot ${action}: Redis refuses user or password: ${reason.replace(/\.$/, '')}; check them in 'connection': in a URL, a password without a user follows a colon, redis://:password@host:6379`,
        undefined,
        { cause },
      );
    }
    const tookMs = Math.round(clock.now() - this.#startedAt);
    return new LockStoreError(
      `Cannot ${action} within ${tookMs} ms, at ${server}: ${this.#reasonAndAdvice(cause, remedy)}`,
      undefined,
      { cause },
    );
  }

  #reasonAndAdvice(cause: unknown, remedy = this.#checkServer(cause)): string {
    // The error for a slow link already contains the advice.
    const { rights } = this.#options;
    const advice = cause instanceof SlowLinkError ? '' : `; ${remedyOf(cause, rights) ?? remedy}`;
    return `${reasonOf(cause)}${advice}`;
  }

  #checkServer(cause: unknown): string {
    const { usesTls } = this.#options;
    const isSilent = cause === this.#noAnswer;
    if (isClosing(cause) || (usesTls && isSilent)) return CHECK_TLS[usesTls ? 'used' : 'unused'];
    return isSilent ? `${CHECK_ADDRESS}, or set a longer startMs` : CHECK_ADDRESS;
  }

  /** Whether a retry is useless, because the answer would be the same. */
  #isRefusal(error: unknown): boolean {
    return (
      error instanceof LockConfigError ||
      error instanceof LockAbortedError ||
      lacksRights(error) ||
      refusesUser(error) ||
      isNotInCluster(error) ||
      this.#isUnexpectedNode(error)
    );
  }

  #isUnexpectedNode(error: unknown): boolean {
    return !this.#options.inCluster && isFromCluster(error);
  }
}
