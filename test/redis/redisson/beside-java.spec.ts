import { afterAll, afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../support/eventually.js';
import { LockProcess, type LockProcessOptions, sharedNow } from '../../support/lock-process.js';
import { useRedisServer } from '../../support/own-redis.js';
import { uniqueKey } from '../../support/unique-key.js';
import { JavaProcess } from './java-process.js';

/** Far below every interval at which anybody looks for himself. */
const AT_ONCE_MS = 1_000;
const LEASE_MS = 3_000;

afterAll(() => LockProcess.endAll());
const server = useRedisServer();
let key: string;

beforeEach(() => {
  key = uniqueKey();
});

afterEach(() => LockProcess.closeAll());

function startNest(options: Partial<LockProcessOptions> = {}): Promise<LockProcess> {
  const module = { redisUrl: server.url, layout: 'redisson', waitMs: 30_000 } as const;
  return LockProcess.start({ ...module, ...options });
}

/** Waits until so many connections listen to the releases of the key. */
async function waiting(count: number): Promise<void> {
  const channel = `redisson_lock__channel:{${key}}`;
  await eventually(async () => {
    const [, listeners] = (await server.admin.pubsub('NUMSUB', channel)) as [string, number];
    expect(listeners).toBe(count);
  });
  await sleep(200); // the last try before the wait has been answered
}

describe('a Java service and a Nest service', () => {
  it('never have a key together, and neither keeps it from the other [G56]', async () => {
    const nests = await Promise.all([startNest(), startNest()]);
    const javas = [await JavaProcess.start(server.url), await JavaProcess.start(server.url)];
    const [counter, register] = [`counter:${key}`, `register:${key}`];
    const order = { key, counter, register, callers: 3, times: 40, pauseMs: 1 };

    await Promise.all([
      ...nests.map((nest) => nest.call('race', order)),
      ...javas.map(({ java }) => java.call('race', order)),
    ]);

    expect(await server.admin.get(counter)).toBe(String(4 * 3 * 40));
    const lines = (await server.admin.lrange(register, 0, -1)).map((line) => line.split(' '));
    expect(lines).toHaveLength(2 * 4 * 3 * 40);
    const holds = lines.filter(([what]) => what === 'enter').map(([, ...who]) => who.join(' '));
    const expected = holds.flatMap((who) => [`enter ${who}`, `leave ${who}`]);
    expect(lines.map((line) => line.join(' '))).toEqual(expected);
    // Nobody is first in line, but each side must have had the key often before the other one was done.
    const sides = holds.map((who) => who.slice(0, 4));
    for (const side of ['java', 'nest']) {
      const other = sides.lastIndexOf(side === 'java' ? 'nest' : 'java');
      const before = sides.slice(0, other).filter((its) => its === side);
      expect(before.length).toBeGreaterThan(20);
    }
  });

  it('wake each other up when they release a key [G56]', async () => {
    const nest = await startNest();
    const { java } = await JavaProcess.start(server.url);
    await java.call('tryLock', key, 1);
    const hold = nest.hold(key);
    await waiting(1);
    const before = await commandsOf('evalsha');
    await sleep(1_000);
    expect((await commandsOf('evalsha')) - before).toBeLessThan(2); // it does not poll

    const unlocked = await java.call('unlock', key, 1);
    const { entered } = await hold.entered;
    expect(entered).toBeGreaterThan(unlocked);
    expect(entered - unlocked).toBeLessThan(AT_ONCE_MS);

    const locking = java.call('tryLock', key, 2, 25_000);
    await waiting(1);
    const { left } = await hold.release();
    const locked = (await locking) as number;
    expect(locked).toBeGreaterThan(left);
    expect(locked - left).toBeLessThan(AT_ONCE_MS);
    await java.call('unlock', key, 2);
    expect(await server.admin.exists(key)).toBe(0);
    await waiting(0);
  });

  it('a thread of Java that comes while calls of a process follow each other gets its turn [G56]', async () => {
    const nest = await startNest();
    const { java } = await JavaProcess.start(server.url);
    const counter = `counter:${key}`;
    const racing = nest.call('race', { key, counter, callers: 8, times: 60, pauseMs: 5 });
    await eventually(async () =>
      expect(Number(await server.admin.get(counter))).toBeGreaterThan(5),
    );
    const asked = sharedNow();
    const locked = (await java.call('tryLock', key, 1, 20_000)) as number;
    const taken = Number(await server.admin.get(counter));
    expect(locked - asked).toBeLessThan(AT_ONCE_MS);
    expect(taken).toBeLessThan(8 * 60);
    await java.call('unlock', key, 1);
    await racing;
    expect(await server.admin.get(counter)).toBe(String(8 * 60));
  });

  it('a thread of Java that has the lock twice must release it twice', async () => {
    const nest = await startNest();
    const { java, clientId } = await JavaProcess.start(server.url);
    await java.call('tryLock', key, 7);
    await java.call('tryLock', key, 7);
    expect(await server.admin.hgetall(key)).toEqual({ [`${clientId}:7`]: '2' });
    const hold = nest.hold(key);
    await waiting(1);
    await java.call('unlock', key, 7);
    await sleep(300);
    expect(await server.admin.hgetall(key)).toEqual({ [`${clientId}:7`]: '1' });
    const unlocked = await java.call('unlock', key, 7);
    expect((await hold.entered).entered).toBeGreaterThan(unlocked);
    await hold.release();
  });

  it('the watchdog of Java keeps its lock, with 30 seconds unless told otherwise', async () => {
    const nest = await startNest({ leaseMs: 1_000 });
    const { java } = await JavaProcess.start(server.url);
    await java.call('tryLock', key, 1);
    expect(await server.admin.pttl(key)).toBeGreaterThan(29_000);
    await java.call('unlock', key, 1);
    const { java: short } = await JavaProcess.start(server.url, 900);
    await short.call('tryLock', key, 1);
    const hold = nest.hold(key);
    await sleep(2_500);
    expect(await short.call('renewals')).toBeGreaterThan(3);
    const unlocked = await short.call('unlock', key, 1);
    expect((await hold.entered).entered).toBeGreaterThan(unlocked);
    await hold.release();
  });
});

describe('a process that is killed', () => {
  it('of Java: Nest has the key when its lease is over, and not before [G57]', async () => {
    const nest = await startNest();
    const { java } = await JavaProcess.start(server.url, LEASE_MS);
    await java.call('tryLock', key, 1);
    const hold = nest.hold(key);
    await waiting(1);
    await java.kill();
    const asked = sharedNow();
    const pttl = await server.admin.pttl(key);
    const { entered } = await hold.entered;
    expect(entered).toBeGreaterThan(asked + pttl - 5);
    expect(entered).toBeLessThan(sharedNow() + pttl + AT_ONCE_MS);
    await hold.release();
  });

  it('of Nest: Java has the key when its lease is over, and not before [G57]', async () => {
    const nest = await startNest({ leaseMs: LEASE_MS });
    const { java } = await JavaProcess.start(server.url);
    await nest.hold(key).entered;
    const locking = java.call('tryLock', key, 1, 20_000);
    await waiting(1);
    await nest.kill();
    const asked = sharedNow();
    const pttl = await server.admin.pttl(key);
    const locked = (await locking) as number;
    expect(locked).toBeGreaterThan(asked + pttl - 5);
    expect(locked).toBeLessThan(sharedNow() + pttl + AT_ONCE_MS);
  });

  it('while it waits: nobody is delayed by it', async () => {
    const [nest, gone] = await Promise.all([startNest(), startNest()]);
    const [{ java }, { java: goneJava }] = [
      await JavaProcess.start(server.url),
      await JavaProcess.start(server.url),
    ];
    await java.call('tryLock', key, 1);
    gone.hold(key);
    void goneJava.call('tryLock', key, 1, 20_000).catch(() => {});
    const hold = nest.hold(key);
    await waiting(3);
    await Promise.all([gone.kill(), goneJava.kill()]);
    const unlocked = await java.call('unlock', key, 1);
    expect((await hold.entered).entered - unlocked).toBeLessThan(AT_ONCE_MS);
    await hold.release();
  });
});

describe('a lock that is taken away', () => {
  it('by forceUnlock: Nest learns it, and does not touch the lock of its successor [G58]', async () => {
    const nest = await startNest({ leaseMs: LEASE_MS });
    const { java, clientId } = await JavaProcess.start(server.url);
    const hold = nest.hold(key);
    await hold.entered;
    const locking = java.call('tryLock', key, 3, 20_000);
    await waiting(1);
    const forcedAt = sharedNow();
    expect(await java.call('forceUnlock', key)).toBe(true);
    const locked = (await locking) as number;
    expect(locked - forcedAt).toBeLessThan(AT_ONCE_MS);

    const lost = await hold.lost;
    expect(lost).toMatchObject({ reason: 'deleted' });
    expect(lost.at - forcedAt).toBeLessThan(LEASE_MS / 2 + AT_ONCE_MS);
    expect(await hold.release()).toMatchObject({ released: false });
    expect(await server.admin.hgetall(key)).toEqual({ [`${clientId}:3`]: '1' });
    await java.call('unlock', key, 3);
  });
});

/** How many of these commands the server has carried out. */
async function commandsOf(name: string): Promise<number> {
  const info = await server.admin.info('commandstats');
  return Number(new RegExp(`cmdstat_${name}:calls=(\\d+)`).exec(info)?.[1] ?? 0);
}
