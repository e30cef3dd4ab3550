import type { CommandOutcome, RedisCommand } from './redis-command.js';

/** A command whose outcome is still awaited. */
export class OpenCommand {
  /** The number of the latest sending. An answer to an earlier one is too late. */
  sending = 0;
  mayHaveRun = false;
  cancelLimit: () => void = () => {};

  constructor(
    readonly command: RedisCommand,
    readonly end: (outcome: CommandOutcome) => void,
  ) {}

  isBefore(other: OpenCommand): boolean {
    return this.sending < other.sending;
  }

  concerns(other: OpenCommand): boolean {
    return this.command.keys.some((key) => other.command.keys.includes(key));
  }
}
