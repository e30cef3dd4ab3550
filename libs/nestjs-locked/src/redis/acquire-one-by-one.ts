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
 * How long all of it may take, without the time in which this process stood still. A single try gives up after a
 * second, and what it has got from other servers must not stay taken until the silent one is given up as well.
 */
const LIMIT_MS = 900;

/** Not taken, because of another key. */
const WAS_FREE: Busy = { kind: 'busy', remainingMs: 0, wasFree: true };

/**
 * Takes keys that cannot be in one command, because they are in different slots of a cluster: one after the other, each
 * with a single try, and all or none. Of two calls that want some of the same keys at once, one gets all of its own,
 * because both begin at the same end.
 *
 * @returns `granted` for every command; otherwise `busy`, or `unknown` for the one that was not answered in time, and
 * for each before it whose release was not
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
