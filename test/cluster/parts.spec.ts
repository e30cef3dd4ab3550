/** A fault of one master does not affect the keys of others. */
import { expect, it } from '@jest/globals';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { openLocksOn } from '../support/open-locks.js';
import { startRedisCluster } from '../support/own-cluster.js';
import { uniqueKey } from '../support/unique-key.js';

it('leases shorter than the time limit of a command survive the silence of another master, and so does clean-up', async () => {
  const cluster = await startRedisCluster({ replicasPerMaster: 0, nodeTimeoutMs: 60_000 });
  // A command may take five seconds here, which is longer than the leases of the test.
  const { engine } = await openLocksOn(cluster.connection, { leaseMs: 30_000 });
  const other = await openLocksOn(cluster.connection, { leaseMs: 30_000 });
  const silent = await cluster.masterOf(uniqueKey());
  const onSilent: string[] = [];
  const onOthers: string[] = [];
  while (onSilent.length < 20 || onOthers.length < 20) {
    const key = uniqueKey();
    const keys = (await cluster.masterOf(key)) === silent ? onSilent : onOthers;
    if (keys.length < 20) keys.push(key);
  }
  const hold = (keys: readonly string[]) =>
    Promise.all(keys.map((key) => engine.acquire(key, { leaseMs: 3_000 })));
  const [away, held] = [await hold(onSilent.slice(0, 3)), await hold(onOthers.slice(0, 3))];
  const released = await engine.acquire(onSilent[3] as string);
  const taken = await other.engine.acquire(onOthers[3] as string);
  const waiters = async (count: number): Promise<void> =>
    expect(await other.engine.inspect(taken.key)).toMatchObject({ waiters: count });

  silent.pause();
  afterTest(() => silent.resume());
  // What these leave on the silent master is taken back when it answers again.
  const unanswered = released.release();
  const failed = onSilent.slice(4).map((key) => engine.acquire(key, { waitMs: 0 }));
  for (const call of [unanswered, ...failed]) call.catch(() => {}); // looked at below
  await unanswered.catch(() => {});
  for (const call of failed)
    await expect(call).rejects.toMatchObject({ code: 'LOCK_STORE_FAILED' });
  await eventually(() => expect(away.every(({ signal }) => signal.aborted)).toBe(true));

  // What a call leaves elsewhere is taken back at once.
  const givesUp = new AbortController();
  const waiting = engine.acquire(taken.key, { signal: givesUp.signal });
  waiting.catch(() => {}); // looked at below
  await eventually(() => waiters(1));
  givesUp.abort();
  await expect(waiting).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
  await eventually(() => waiters(0));
  expect(await taken.release()).toBe(true);

  expect(held.map(({ isHeld }) => isHeld)).toEqual([true, true, true]);
  for (const key of onOthers.slice(3)) {
    const lock = await engine.acquire(key, { waitMs: 0 });
    expect(await lock.release()).toBe(true);
  }
  silent.resume();
  await eventually(async () => {
    for (const key of onSilent.slice(3)) {
      const lock = await engine.acquire(key, { waitMs: 1_000 });
      expect(await lock.release()).toBe(true);
    }
  }, 20_000);
  for (const lock of held) expect(await lock.release()).toBe(true);
});

it('a call for several keys that fails because of one master leaves the keys of others free, and names the one that failed', async () => {
  const cluster = await startRedisCluster({ replicasPerMaster: 0, nodeTimeoutMs: 60_000 });
  // A command may take five seconds here, which is longer than the call waits.
  const { engine } = await openLocksOn(cluster.connection, { leaseMs: 30_000 });
  const other = await openLocksOn(cluster.connection, { leaseMs: 30_000 });
  const answered = uniqueKey('a');
  const silent = await cluster.otherMaster(answered);
  let lost = uniqueKey('b');
  while ((await cluster.masterOf(lost)) !== silent) lost = uniqueKey('b');
  const ended: string[] = [];

  // Both masters have answered once, so that only the silence takes long.
  for (const key of [answered, lost]) await (await engine.acquire(key)).release();
  silent.pause();
  afterTest(() => silent.resume());
  const givenUp = engine.inspect(lost).catch(() => ended.push('the silent master was given up'));
  const several = engine.acquire([answered, lost], { waitMs: 0 }).catch((error: unknown) => error);
  // Of two connections, the one that was used later may be heard first.
  const taken = eventually(async () => expect(await other.engine.inspect(answered)).not.toBeNull());
  await Promise.race([several, taken]);
  const waiting = other.engine.acquire(answered, { waitMs: 30_000 }).then(async (lock) => {
    ended.push('the other process has the key');
    return lock.release();
  });
  expect(await several).toMatchObject({ code: 'LOCK_STORE_FAILED', key: lost });
  expect(await waiting).toBe(true);
  await givenUp;
  expect(ended).toEqual(['the other process has the key', 'the silent master was given up']);
});
