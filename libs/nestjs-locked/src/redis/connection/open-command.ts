import type { Linked } from '../../core/runtime/linked-list.js';
import type { CommandOutcome, RedisCommand } from './redis-command.js';

/** A command whose outcome is still awaited. */
export class OpenCommand implements Linked<OpenCommand> {
  list: object | undefined;
  before: OpenCommand | undefined;
  after: OpenCommand | undefined;
  /** The number of the latest sending. An answer to an earlier one is too late. */
  sending = 0;
  mayHaveRun = false;
  /** It has more time than the limit, because our own event loop was blocked. */
  isExtended = false;
  /** Ends what was armed for this command alone. */
  onEnd: (() => void) | undefined;

  /** @param dueAt when its time is over, on the monotonic clock */
  constructor(
    readonly command: RedisCommand,
    public dueAt: number,
    readonly end: (outcome: CommandOutcome) => void,
  ) {}

  isBefore(other: OpenCommand): boolean {
    return this.sending < other.sending;
  }

  concerns(other: OpenCommand): boolean {
    return this.command.keys.some((key) => other.command.keys.includes(key));
  }
}
