import { acquiredVia } from '../calls/acquired-via.js';
import type { ReentryLevel } from '../calls/reentry-level.js';
import { ACQUIRE } from '../events/lock-channels.js';
import type { LockAcquireMessage, Unfinished } from '../events/lock-messages.js';
import { LockError } from '../lock.errors.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import { templateOf } from '../template-of.js';
import type { Clock } from '../time/clock.js';

type Levels = readonly ReentryLevel[];

/**
 * Takes the keys, and tells the subscribers of `nestjs-locked:acquire` about it.
 * @param take gets the options with the message of the call
 */
export async function tracedAcquire(
  clock: Clock,
  service: string | undefined,
  keys: readonly string[],
  options: ResolvedLockOptions,
  take: (options: ResolvedLockOptions) => Promise<Levels>,
): Promise<Levels> {
  const { template, label, waitMs } = options;
  const message: Unfinished<LockAcquireMessage> = {
    service,
    keys: [...keys],
    template: templateOf(keys[0] as string, template),
    label,
    waitMs,
  };
  const since = clock.now();
  ACQUIRE.start.publish(message);
  const taken = take({ ...options, message });
  ACQUIRE.end.publish(message);
  try {
    const levels = await taken;
    message.via = acquiredVia(levels);
    return levels;
  } catch (error) {
    // Anything else makes the transaction around the call begin again.
    if (error instanceof LockError) {
      message.error = error;
      ACQUIRE.error.publish(message);
    }
    throw error;
  } finally {
    message.waitedMs = clock.now() - since;
    ACQUIRE.asyncStart.publish(message);
    ACQUIRE.asyncEnd.publish(message);
  }
}
