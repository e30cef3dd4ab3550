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

/** A command that Redis has answered, and that ends when replicas have acknowledged its writes. */
interface Pending {
  readonly open: OpenCommand;
  readonly answer: CommandAnswer;
}

/** Sends a command on the connection; `end` is called once. */
type Send = (command: RedisCommand, end: (outcome: CommandOutcome) => void) => OpenCommand;

/**
 * Holds back the answer to every command that grants or prolongs a lease until `waitReplicas` replicas have
 * acknowledged its writes. A failover to one of these replicas then does not lose them.
 *
 * At most one WAIT is in flight. It covers every command sent before it on the same connection, so its answer ends all
 * those already answered. While a command is held back, a WAIT is in flight, so waiting for all commands of the
 * connection includes held-back ones.
 *
 * A WAIT proves nothing about another connection, so commands held back on a connection that breaks end with an unknown
 * outcome.
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

  /** Whether a WAIT is in flight, which delays all answers after it. */
  get isAsking(): boolean {
    return this.#wait !== undefined;
  }

  /** @returns whether it will end the command later; if not, the command has ended with this outcome */
  holdBack(open: OpenCommand, answer: CommandOutcome): boolean {
    if (answer.kind !== 'answered') return false;
    if (open.command.mustBeReplicated?.(answer.reply) !== true) return false;
    this.#pending.push({ open, answer });
    if (this.#wait === undefined) this.#ask();
    return true;
  }

  /** Called when the connection is lost, and the replicas cannot be asked about commands sent on it any more. */
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

  /** @param sending everything sent before it was acknowledged by `count` replicas */
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
    const reason = `it is unknown whether the replicas have what Redis did: ${cause}`;
    for (const pending of this.#pending.splice(0))
      pending.open.end(failure(pending, reason, error));
  }
}

function failure({ open, answer }: Pending, reason: string, cause?: unknown): CommandFailure {
  const options = cause === undefined ? undefined : { cause };
  const error = new LockStoreError(`Cannot ${open.command.action}: ${reason}`, undefined, options);
  return { kind: 'failed', cause: error, neverRan: false, unacknowledged: answer };
}
