import type { Linked } from '../../../core/runtime/linked-list.js';
import type { AwakeLimit } from '../../../core/time/after-silence.js';
import type { CommandOutcome, RedisCommand } from './redis-command.js';

/** A command with a pending outcome. */
export class OpenCommand implements Linked<OpenCommand> {
  list: object | undefined;
  before: OpenCommand | undefined;
  after: OpenCommand | undefined;
  /** The number of the latest sending. Answers to earlier ones are ignored. */
  sending = 0;
  mayHaveRun = false;
  /** Cancels the separate timer of this command, whose limit is not watched with the others. */
  onEnd: (() => void) | undefined;

  constructor(
    readonly command: RedisCommand,
    readonly limit: AwakeLimit,
    readonly end: (outcome: CommandOutcome) => void,
  ) {}

  isBefore(other: OpenCommand): boolean {
    return this.sending < other.sending;
  }

  concerns(other: OpenCommand): boolean {
    return this.command.keys.some((key) => other.command.keys.includes(key));
  }
}
