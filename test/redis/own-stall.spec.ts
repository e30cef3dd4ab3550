/** A process whose event loop was blocked must not mistake its own silence for that of Redis. */
import { afterAll, describe, expect, it } from '@jest/globals';
import { LockNotAcquiredError } from 'nestjs-locked';
import { setImmediate as immediate, setTimeout as sleep } from 'node:timers/promises';
import type { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import { LockObserver } from '../support/lock-observer.js';
import { LockProcess, sharedNow } from '../support/lock-process.js';
import { openAdmin, openLocks, openLocksOn } from '../support/open-locks.js';
import { useRedisServer } from '../support/own-redis.js';
import { SlowClock } from '../support/slow-clock.js';
import { standStill } from '../support/stand-still.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 3_000;
/** Redis has this long to answer a command. */
const LIMIT_MS = LEASE_MS / 3;

afterAll(() => LockProcess.endAll());
const server = useRedisServer();
const observer = new LockObserver(server);

/** Waits until the commands of this turn are written, and reads no answer. */
async function sent(): Promise<void> {
  for (let i = 0; i < 3; i++) await new Promise<void>((resolve) => process.nextTick(resolve));
}

/**
 * Returns when one of two answers that have arrived together was read. The other one, to a call of the engine, is read
 * after whatever the caller does, before the sockets are read again.
 */
async function blockedBetweenAnswers(engine: LockEngine): Promise<void> {
  await sleep(50); // answers in flight are read
  const first = observer.holder(uniqueKey());
  await sent();
  standStill(50);
  void engine.acquire(uniqueKey());
  await sent();
  standStill(100);
  await first;
}

async function connectionsMade(): Promise<number> {
  const stats = await server.admin.info('stats');
  return Number(/total_connections_received:(\d+)/.exec(stats)?.[1]);
}

describe('an event loop that is blocked for longer than Redis may take to answer', () => {
  it('waits for the answer to commands that it could not send before', async () => {
    const { engine, events } = await openLocks(server.url, { leaseMs: LEASE_MS });
    const acquiring = engine.acquire(uniqueKey(), { waitMs: 0 });
    standStill(LIMIT_MS + 500); // in the same turn: nothing was sent yet
    expect((await acquiring).isHeld).toBe(true);
    expect(events).toEqual([]);
  });

  it('waits for the answer even if the time was over right after the command could be sent [D21]', async () => {
    const proxy = await TcpProxy.start(server.port);
    proxy.delayAnswers(50, { alsoToCome: true });
    const { engine, events } = await openLocks(proxy.url, { leaseMs: LEASE_MS });
    for (const lateMs of [-30, 30]) {
      const acquiring = [1, 2].map(() => engine.acquire(uniqueKey(), { waitMs: 0 }));
      standStill(LIMIT_MS + lateMs); // in the same turn
      for (const lock of await Promise.all(acquiring)) expect(lock.isHeld).toBe(true);
    }
    expect(events).toEqual([]);
  });

  it('waits for the answer even if a wait was over meanwhile: somebody else has the key, and Redis has not failed [D22]', async () => {
    const proxy = await TcpProxy.start(server.port);
    proxy.delayAnswers(100, { alsoToCome: true });
    const { engine, events } = await openLocks(proxy.url, { leaseMs: LEASE_MS });
    const other = (await openLocks(server.url, { leaseMs: 60_000 })).engine;
    const key = uniqueKey();
    await other.acquire(key);
    for (const blockedMs of [600, 1_500, 3_000]) {
      const acquiring = engine.acquire(key, { waitMs: 400 }).catch((error: unknown) => error);
      await observer.waiting(key, 1);
      standStill(blockedMs);
      expect(await acquiring).toBeInstanceOf(LockNotAcquiredError);
      await observer.waiting(key, 0);
    }
    expect(events).toEqual([]);
  });

  it('gives a branch its turn if the previous one has ended meanwhile', async () => {
    const { engine } = await openLocks(server.url, { leaseMs: LEASE_MS });
    const key = uniqueKey();
    const admin = openAdmin(server.url);
    await admin.ping();
    const answers = await engine.withLock(key, {}, async () => {
      const first = engine.withLock(key, {}, () => admin.blpop(uniqueKey(), 0.4));
      const second = engine.withLock(key, { waitMs: 600 }, () => 'had its turn');
      await sent();
      await immediate(); // timers fire next, before the sockets are read
      standStill(1_000);
      return Promise.all([first, second]);
    });
    expect(answers).toEqual([null, 'had its turn']);
  });

  it('reports no failed renewal and no outage, and keeps its lock [D20]', async () => {
    const { engine, events } = await openLocks(server.url, { leaseMs: LEASE_MS });
    const key = uniqueKey();
    const lock = await engine.acquire(key);
    const token = await observer.holder(key);
    for (let i = 0; i < 6; i++) {
      await sleep(i % 2 === 0 ? 0 : 30); // a renewal that is due is sent
      await immediate();
      standStill(LIMIT_MS + 150);
    }
    await sleep(100);
    expect(events).toEqual([]);
    expect(lock.isHeld).toBe(true);
    expect(await observer.holder(key)).toBe(token);
  });

  it.each([
    ['by a timer', async () => sleep(20)],
    ['by a socket, with others to be read after that', blockedBetweenAnswers],
  ])(
    'finds a grant that has arrived before it reports that a wait was in vain: blocked %s',
    async (_, comesBack) => {
      const leaseMs = 120_000; // a grant is for a tenth of it
      const waitMs = 4_000;
      const { engine, events } = await openLocks(server.url, { leaseMs });
      const [other] = await LockProcess.startMany(1, { redisUrl: server.url, leaseMs });
      const key = uniqueKey();
      const hold = other!.hold(key, { ms: 1_500 }); // a message could be delayed while this process is blocked
      await hold.entered;
      const since = sharedNow();
      const calls = [1, 2].map(() => engine.acquire(key, { waitMs }));
      for (const call of calls) call.catch(() => {});
      await observer.waiting(key, 1);
      await comesBack(engine);
      standStill(since + waitMs + 1_500 - sharedNow());
      const blockedUntil = sharedNow();

      expect((await calls[0])?.isHeld).toBe(true);
      expect((await hold.ended).left).toBeLessThan(blockedUntil);
      expect(events).toEqual([]);
    },
  );

  it.each([LEASE_MS, 1_200])(
    'keeps its connections, however often it happens while commands are in flight: leaseMs %d [D23]',
    async (leaseMs) => {
      const { engine, events } = await openLocks(server.url, { leaseMs });
      const waited = await engine.acquire(uniqueKey()); // its renewals come while the loop is blocked
      const before = await connectionsMade();
      for (let i = 0; i < 5; i++) {
        const calls = [1, 2].map(() => engine.acquire(uniqueKey()));
        await sent();
        const blockedAt = performance.now();
        standStill(leaseMs / 2); // longer than a connection may be silent
        expect(performance.now() - blockedAt).toBeGreaterThan((1.2 * leaseMs) / 3);
        for (const lock of await Promise.all(calls)) {
          expect(lock.isHeld).toBe(true);
          expect(await lock.release()).toBe(true);
        }
      }
      await sleep(leaseMs);
      expect(await connectionsMade()).toBe(before);
      expect(waited.isHeld).toBe(true);
      expect(events).toEqual([]);
    },
  );

  it('keeps its connections while they are being opened [D24]', async () => {
    const leaseMs = 600;
    await server.admin.acl('SETUSER', 'stalled', 'on', '>secret', '~*', '&*', '+@all');
    const before = await connectionsMade();
    const opening = openLocksOn(
      { host: '127.0.0.1', port: server.port, username: 'stalled', password: 'secret', db: 2 },
      { leaseMs },
    );
    let isOpen = false;
    const opened = opening.finally(() => (isOpen = true));
    let turns = 0;
    while (!isOpen && turns < 100) {
      await immediate();
      standStill(0.45 * leaseMs);
      turns++;
    }
    const { engine, events } = await opened;
    expect(turns).toBeGreaterThan(3);
    expect(await connectionsMade()).toBe(before + 2); // for commands and for messages
    expect((await engine.acquire(uniqueKey())).isHeld).toBe(true);
    expect(events).toEqual([]);
  });
});

describe('an event loop that is blocked after a single try on a connection that has died', () => {
  /** A single try has a second, in which a connection is replaced. A busy machine may need more. */
  const SLOWER = 2;

  it.each([
    [LEASE_MS, 450],
    [LEASE_MS, 800],
    [30_000, 450],
    [30_000, 800],
  ])(
    'does not use up the time for a new one: leaseMs %d, blocked for %d ms',
    async (leaseMs, blockedMs) => {
      const proxy = await TcpProxy.start(server.port);
      const clock = new SlowClock(SLOWER);
      // How long before the block each single try begins: the connection is given up after half a second.
      const earlyBy = [450, 350, 200, 50];
      const locks = await Promise.all(earlyBy.map(() => openLocks(proxy.url, { leaseMs, clock })));
      await sleep(300 * SLOWER); // the connections are idle
      proxy.silenceAll();
      proxy.heal();
      const blockAt = performance.now() + 500 * SLOWER;
      const tries = locks.map(async ({ engine }, i) => {
        await sleep(blockAt - earlyBy[i]! * SLOWER - performance.now());
        return engine.tryAcquire(uniqueKey());
      });
      await sleep(blockAt - performance.now());
      standStill(blockedMs * SLOWER);
      for (const lock of await Promise.all(tries)) expect(lock?.isHeld).toBe(true);
      const told = locks.flatMap(({ events }) => events.map(({ type }) => type));
      expect(new Set(told)).toEqual(new Set(['connection-replaced']));
    },
  );
});
