import { LockStoreError } from '../../../core/lock.errors.js';
import type { RequiredReplicas } from '../server/required-replicas.js';
import type { OpenCommand } from './open-command.js';
import type {
  CommandAnswer,
  CommandFailure,
  CommandOutcome,
  RedisCommand,
} from './redis-command.js';
import { acknowledgedBy, waitCommand } from './wait-command.js';

/** A command that Redis has answered, and that ends when replicas have acknowledged what it wrote. */
interface Pending {
  readonly open: OpenCommand;
  readonly answer: CommandAnswer;
}

/** Sends a command on the connection; `end` is called once. */
type Send = (command: RedisCommand, end: (outcome: CommandOutcome) => void) => OpenCommand;

/**
 * Holds back the answer to every command that grants or prolongs a lease until enough replicas have acknowledged what
 * the command wrote. A failover to one of these replicas then loses nothing of it.
 *
 * One WAIT is in flight at most. It covers every command that was sent before it on the same connection, so its answer
 * ends all that were answered until then. As long as a command is held back, a WAIT is in flight: whoever waits until
 * the connection has no more commands to answer waits for these, too.
 *
 * A WAIT proves nothing about another connection, so a connection that breaks ends all that it has answered with an
 * unknown outcome.
 */
export class ReplicaAcknowledgements {
  readonly #required: RequiredReplicas;
  readonly #limitMs: number;
  readonly #command: RedisCommand;
  readonly #send: Send;
  #pending: Pending[] = [];
  #wait: OpenCommand | undefined;

  constructor(required: RequiredReplicas, limitMs: number, send: Send) {
    this.#required = required;
    this.#limitMs = limitMs;
    this.#command = waitCommand(required, limitMs);
    this.#send = send;
  }

  /** Whether a WAIT is in flight: Redis answers nothing behind it before it has ended. */
  get isAsking(): boolean {
    return this.#wait !== undefined;
  }

  /** @returns whether it ends the command, later; if not, the command has ended with this outcome */
  holdBack(open: OpenCommand, answer: CommandOutcome): boolean {
    if (answer.kind !== 'answered') return false;
    if (open.command.mustBeReplicated?.(answer.reply) !== true) return false;
    this.#pending.push({ open, answer });
    if (this.#wait === undefined) this.#ask();
    return true;
  }

  /** The connection is gone, and nobody can ask any more what the replicas have of what was sent on it. */
  lost(): void {
    this.#failAll('the connection to Redis broke');
  }

  #ask(): void {
    const wait = this.#send(this.#command, (outcome) => {
      this.#wait = undefined;
      if (outcome.kind === 'failed') this.#failAll(outcome.cause.message, outcome.cause);
      else this.#acknowledged(wait.sending, acknowledgedBy(outcome.reply));
    });
    this.#wait = wait;
  }

  /** @param sending all that was sent before it has been acknowledged by `count` replicas */
  #acknowledged(sending: number, count: number): void {
    const covered = this.#pending.filter(({ open }) => open.sending < sending);
    this.#pending = this.#pending.filter(({ open }) => open.sending > sending);
    if (this.#pending.length > 0) this.#ask();
    const { replicas, aof } = this.#required;
    if (count >= replicas) {
      for (const { open, answer } of covered) open.end(answer);
      return;
    }
    const have = aof ? 'have it on disk' : 'have acknowledged it';
    const reason = `Redis did it, but only ${count} of ${replicas} replicas ${have} within ${this.#limitMs} ms`;
    for (const pending of covered) pending.open.end(failure(pending, reason));
  }

  #failAll(cause: string, error?: unknown): void {
    const reason = `nobody knows whether its replicas have what Redis did: ${cause}`;
    for (const pending of this.#pending.splice(0))
      pending.open.end(failure(pending, reason, error));
  }
}

function failure({ open, answer }: Pending, reason: string, cause?: unknown): CommandFailure {
  const options = cause === undefined ? undefined : { cause };
  const error = new LockStoreError(`Cannot ${open.command.action}: ${reason}`, undefined, options);
  return { kind: 'failed', cause: error, neverRan: false, unacknowledged: answer };
}
