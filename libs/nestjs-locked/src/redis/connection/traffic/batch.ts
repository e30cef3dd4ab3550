import { isOfSeveralSlots, lacksRights } from '../../scripts/reply-error.js';
import type { RedisConnection } from '../server/redis-client.js';
import type { BatchPart } from './batch-part.js';
import type { OpenCommand } from './open-command.js';

/** How many batches the commands of one turn make: the server works on the first while we read the last answers. */
const USUAL = 4;

/** A smaller batch costs more time than it saves. */
const LEAST_IN_BATCH = 4;

/** A larger one would keep the server from everything else for too long. */
const MOST_IN_BATCH = 16;

/** Splits commands into those that are sent as one, in their order. */
export function batchesOf(commands: readonly OpenCommand[]): OpenCommand[][] {
  const size = Math.max(
    LEAST_IN_BATCH,
    Math.min(MOST_IN_BATCH, Math.ceil(commands.length / USUAL)),
  );
  const batches: OpenCommand[][] = [];
  let last: OpenCommand[] | undefined;
  for (const open of commands) {
    const mayShare = open.part !== undefined;
    if (mayShare && last !== undefined && last.length < size) {
      last.push(open);
    } else {
      const batch = [open];
      batches.push(batch);
      last = mayShare ? batch : undefined;
    }
  }
  return batches;
}

/** @param whole whether to send the whole script, which the server does not know */
export function sendBatch(
  redis: RedisConnection,
  batch: readonly OpenCommand[],
  whole: boolean,
): Promise<unknown> {
  const keys: string[] = [];
  const args: (string | number)[] = [''];
  let letters = '';
  for (const open of batch) {
    const part = open.part as BatchPart;
    const own = typeof part.args === 'function' ? part.args() : part.args;
    letters += String.fromCharCode((part.isAcquire ? 96 : 64) + own.length);
    keys.push(...part.keys());
    args.push(...own);
  }
  args[0] = letters;
  return (batch[0]?.part as BatchPart).script.send(redis, keys, args, whole);
}

/** The error of one command in the answer to a batch. */
export function refusalIn(reply: unknown): Error | undefined {
  if (!Array.isArray(reply) || reply[0] !== 'refused') return undefined;
  return Object.assign(new Error(String(reply[1])), { name: 'ReplyError' });
}

/** Whether a command with several keys was refused for one of them, or for their number: nothing has run. */
export function mustBeAlone(error: unknown): boolean {
  return lacksRights(error) || isOfSeveralSlots(error);
}
