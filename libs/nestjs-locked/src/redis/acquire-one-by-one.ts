import { LockStoreError } from '../core/lock.errors.js';
import type {
  AcquireCommand,
  AcquireReply,
  Busy,
  LockStore,
  Unknown,
} from '../core/store/lock-store.js';
import { afterSilence } from '../core/time/after-silence.js';
import { type Clock, systemClock } from '../core/time/clock.js';

/**
 * The time limit for all keys, not counting time in which this process was blocked. A single try gives up after a
 * second, and keys already acquired from other servers must not stay taken until the silent one is given up too.
 */
const LIMIT_MS = 900;

/** The reply for a key not taken because of another one. */
const WAS_FREE: Busy = { kind: 'busy', remainingMs: 0, wasFree: true };

/**
 * Takes keys that cannot be in one command, because they are in different slots of a cluster: one after the other, each
 * with a single try, all or none. Of two concurrent calls with common keys, one gets all of its own, because both begin
 * at the same end.
 *
 * @returns `granted` for every command; otherwise `busy`, or `unknown` for the one not answered in time, and for each
 * earlier one whose release was not answered
 */
export async function acquireOneByOne(
  store: Pick<LockStore, 'acquire' | 'release'>,
  commands: readonly AcquireCommand[],
  clock: Clock = systemClock,
): Promise<readonly AcquireReply[]> {
  let cancel = (): void => {};
  const over = new Promise<undefined>((resolve) => {
    cancel = afterSilence(clock, LIMIT_MS, () => resolve(undefined));
  });
  const granted: AcquireReply[] = [];
  for (const command of commands) {
    const reply = (await Promise.race([store.acquire(command), over])) ?? unanswered(command);
    if (reply.kind !== 'granted') {
      cancel();
      const released = await giveBack(store, commands.slice(0, granted.length));
      const untouched = commands.slice(granted.length + 1).map(() => WAS_FREE);
      return [...released, reply, ...untouched];
    }
    granted.push(reply);
  }
  cancel();
  return granted;
}

function unanswered({ key }: AcquireCommand): Unknown {
  const reason = `Redis has not answered within ${LIMIT_MS} ms`;
  return { kind: 'unknown', cause: new LockStoreError(`Cannot acquire '${key}': ${reason}`, key) };
}

function giveBack(
  store: Pick<LockStore, 'release'>,
  commands: readonly AcquireCommand[],
): Promise<AcquireReply[]> {
  return Promise.all(
    commands.map(async ({ key, token }) => {
      const reply = await store.release({ key, token, used: 0 });
      return reply.kind === 'unknown' ? { ...reply, neverRan: false } : WAS_FREE;
    }),
  );
}
