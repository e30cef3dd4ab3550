import { LockStoreError } from '../../../core/lock.errors.js';
import { unreachable } from '../../../core/runtime/unreachable.js';
import type { Clock } from '../../../core/time/clock.js';
import { isBlocked, isRefusal } from '../../scripts/reply-error.js';
import { reasonOf } from '../server/reason-of.js';
import type { CommandConnection } from '../traffic/command-connection.js';
import type { RedisInbox } from '../traffic/redis-inbox.js';
import type { InboxProof, InboxProofOutcome } from './inbox-proof.js';
import { remedyOf } from './remedy-of.js';

/** The pause before the proof is repeated after Redis gave no answer or refused something. */
const RETRY_MS = 1_000;

/**
 * The proof is repeated with every sixth heartbeat, at most every 30 seconds. It costs the server as much as a few
 * locks.
 */
const BEATS = 6;

export interface ConnectionProofOptions {
  readonly clock: Clock;
  readonly commands: CommandConnection;
  readonly inbox: () => RedisInbox | undefined;
  readonly proof: InboxProof;
  /** For messages. */
  readonly server: string;
  /** What the Redis user needs, in the words of ACL SETUSER. */
  readonly rights: () => string;
}

export interface ConnectionProofListener {
  proved(): void;
  /** The proof has failed and is repeated. */
  failed(error: unknown): void;
  /** The server refuses something that the scripts need. Reported with each refusal. */
  rightsLost(cause: LockStoreError): void;
  /** The server refuses nothing any more. Reported once. */
  rightsBack(): void;
}

/**
 * Proves that the connection for commands and the inbox lead to the same server, and that our user has the rights that
 * the scripts need there. Proved whenever one of the two is new, and regularly: rights may be revoked while both
 * connections live, and a script that may not publish or query listeners cannot report that otherwise.
 */
export class ConnectionProof {
  readonly #options: ConnectionProofOptions;
  readonly #listener: ConnectionProofListener;
  #beats = 0;
  #isRefused = false;
  /** When the last proof after a refused command was made or is due. */
  #suspectedAt = -Infinity;
  #cancelSuspicion: () => void = () => {};
  #cancelRetry: () => void = () => {};

  constructor(options: ConnectionProofOptions, listener: ConnectionProofListener) {
    this.#options = options;
    this.#listener = listener;
  }

  /** @param older the connection that is replaced if it leads to another server than the new one */
  prove(older: CommandConnection | RedisInbox): void {
    this.#run(older, true);
  }

  /**
   * Called regularly, when both connections were checked.
   * @param isRefused whether the server has refused something, so that the proof is due
   */
  beat(isRefused: boolean): void {
    const inbox = this.#options.inbox();
    if (inbox === undefined || this.#isRefused) return; // already repeated more often
    if (++this.#beats < BEATS && !isRefused) return;
    this.#beats = 0;
    this.#run(inbox, false);
  }

  /** Called when a command has failed. If the server refused it, finds out whether it refuses others too. */
  commandFailed(cause: unknown): void {
    const inbox = this.#options.inbox();
    if (inbox === undefined || this.#isRefused || !isRefusal(cause)) return;
    const { clock } = this.#options;
    const now = clock.now();
    if (this.#suspectedAt > now) return; // a proof is due
    const pauseMs = Math.max(0, this.#suspectedAt + RETRY_MS - now);
    this.#suspectedAt = now + pauseMs;
    if (pauseMs === 0) this.#run(inbox, false);
    else this.#cancelSuspicion = clock.after(pauseMs, () => this.#run(inbox, false));
  }

  close(): void {
    this.#cancelSuspicion();
    this.#cancelRetry();
    this.#isRefused = false;
  }

  /** @param mustSucceed whether one of the connections is new and unproved */
  #run(older: CommandConnection | RedisInbox, mustSucceed: boolean): void {
    const { commands, proof } = this.#options;
    const inbox = this.#options.inbox();
    if (inbox === undefined || !commands.isReady) return;
    const isListening = inbox.ready;
    // A new connection is proved when both are present. Until then, only refusals can be detected.
    if (!isListening && mustSucceed && !this.#isRefused) return;
    const [commandsBefore, inboxBefore] = [commands.connections, inbox.connections];
    const decide = (outcome: InboxProofOutcome, isInboxThere: boolean): void => {
      const isOutdated =
        commands.connections !== commandsBefore ||
        (isListening && inbox.connections !== inboxBefore);
      if (isOutdated) {
        if (this.#isRefused) this.#runLater(older, mustSucceed);
        return;
      }
      switch (outcome.kind) {
        case 'arrived':
          commands.proved();
          inbox.proved();
          this.#isAllowed();
          return this.#listener.proved();
        case 'missing': {
          if (!isListening) return this.#isAllowed(); // the script was executed, and there could be no listener
          if (!isInboxThere) return inbox.reconnect();
          const divided = new Error(
            'messages published on one connection do not arrive on the other',
          );
          this.#listener.failed(divided);
          return older.reconnect(divided);
        }
        case 'failed': {
          const cause = outcome.cause.cause ?? outcome.cause;
          this.#listener.failed(cause);
          if (isRefusal(cause)) this.#refuses(cause);
          if (mustSucceed || this.#isRefused) this.#runLater(older, mustSucceed);
          return;
        }
        default:
          return unreachable(outcome);
      }
    };
    // The replicas of a new server, which may not be connected yet, are proved at the start.
    void proof.run(!mustSucceed || this.#isRefused).then(async (outcome) => {
      // An inbox just cut at the other end may not know it yet, which must not affect commands.
      const isDoubted = isListening && outcome.kind === 'missing';
      decide(outcome, !isDoubted || (await inbox.answers()));
    });
  }

  #runLater(older: CommandConnection | RedisInbox, mustSucceed: boolean): void {
    this.#cancelRetry();
    this.#cancelRetry = this.#options.clock.after(RETRY_MS, () => this.#run(older, mustSucceed));
  }

  #refuses(cause: unknown): void {
    const isFirst = !this.#isRefused;
    this.#isRefused = true;
    if (isFirst && isBlocked(cause)) return; // the block may end in a moment
    const { server, rights } = this.#options;
    const remedy = remedyOf(cause, rights);
    const advice = remedy === undefined ? '' : `; ${remedy}`;
    const reason = `${reasonOf(cause)} (at ${server})${advice}`;
    this.#listener.rightsLost(new LockStoreError(reason, undefined, { cause }));
  }

  #isAllowed(): void {
    if (!this.#isRefused) return;
    this.#isRefused = false;
    this.#listener.rightsBack();
  }
}
