import type { Linked } from '../../../core/runtime/linked-list.js';
import type { AwakeLimit } from '../../../core/time/after-silence.js';
import { type BatchPart, tokensOf } from './batch-part.js';
import type { CommandOutcome, RedisCommand } from './redis-command.js';

/** A command with a pending outcome. */
export class OpenCommand implements Linked<OpenCommand> {
  list: object | undefined;
  before: OpenCommand | undefined;
  after: OpenCommand | undefined;
  /** The number of the latest sending. */
  sending = 0;
  /** What the latest sending has sent, which tells its answer from those to earlier ones. */
  sentIn: object | undefined;
  mayHaveRun = false;
  /** Whether it must not share a command with others any more. */
  isAlone = false;
  /** Cancels the separate timer of this command, whose limit is not watched with the others. */
  onEnd: (() => void) | undefined;

  constructor(
    readonly command: RedisCommand,
    readonly limit: AwakeLimit,
    readonly end: (outcome: CommandOutcome) => void,
  ) {}

  get part(): BatchPart | undefined {
    return this.isAlone ? undefined : this.command.part;
  }

  get #tokens(): readonly unknown[] | undefined {
    return this.command.tokens ?? tokensOf(this.command.part);
  }

  isBefore(other: OpenCommand): boolean {
    return this.sending < other.sending;
  }

  /** Whether their order matters. */
  concerns(other: OpenCommand): boolean {
    if (!this.command.keys.some((key) => other.command.keys.includes(key))) return false;
    const [own, others] = [this.#tokens, other.#tokens];
    return own === undefined || others === undefined || own.some((token) => others.includes(token));
  }
}
