import type { Linked } from '../../../core/runtime/linked-list.js';
import type { AwakeLimit } from '../../../core/time/after-silence.js';
import type { CommandOutcome, RedisCommand } from './redis-command.js';

/** A command whose outcome is still awaited. */
export class OpenCommand implements Linked<OpenCommand> {
  list: object | undefined;
  before: OpenCommand | undefined;
  after: OpenCommand | undefined;
  /** The number of the latest sending. An answer to an earlier one is too late. */
  sending = 0;
  mayHaveRun = false;
  /** Ends what was armed for this command alone: its limit is not looked at with those of the others. */
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
