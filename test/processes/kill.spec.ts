import { afterAll, afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { expectExclusive, inOrder } from '../support/hold-history.js';
import { LockObserver } from '../support/lock-observer.js';
import { type Attempt, LockProcess, sharedNow } from '../support/lock-process.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 1_000;
/** Too long for a lease to expire during a test. */
const LONG_LEASE_MS = 60_000;
/** Upper bound for what takes milliseconds on an idle machine. */
const SOON_MS = 5_000;

afterAll(() => LockProcess.endAll());
const server = useRedisServer();
const observer = new LockObserver(server);
let key: string;

beforeEach(() => {
  key = uniqueKey();
});

afterEach(async () => {
  server.resume();
  await LockProcess.closeAll();
});

describe('the holder is killed', () => {
  it('the next waiter enters after the lease has ended, not before [D103, G2]', async () => {
    const [holder, waiter] = await start(2);
    const { token } = await holder!.hold(key).entered;
    const waiting = waiter!.hold(key);
    await observer.waiting(key, 1);
    const lease = await observer.holder(key);

    await holder!.kill();

    // The lease is no longer renewed, but still exists.
    expect(await observer.holder(key)).toBe(lease);
    const { earliest, latest } = await observer.leaseEnd(key);
    const next = await waiting.entered;
    expect(next.entered).toBeGreaterThanOrEqual(earliest);
    expect(next.entered).toBeLessThan(latest + SOON_MS);
    expect(next.token).toBeGreaterThan(token);
  });

  it('and with it the head of the queue: the waiter behind enters [D107]', async () => {
    const [holder, head, behind] = await start(3);
    const { token } = await holder!.hold(key).entered;
    head!.hold(key);
    await observer.waiting(key, 1);
    const waiting = behind!.hold(key);
    await observer.waiting(key, 2);

    await Promise.all([holder!.kill(), head!.kill()]);

    const { earliest, latest } = await observer.leaseEnd(key);
    const next = await waiting.entered;
    expect(next.entered).toBeGreaterThanOrEqual(earliest);
    expect(next.entered).toBeLessThan(latest + SOON_MS);
    expect(next.token).toBeGreaterThan(token);
  });

  it('with several waiters in several processes: all enter, processes in their order', async () => {
    const [holder, ...waiters] = await start(4);
    await holder!.hold(key).entered;
    const attempts: Attempt[][] = [];
    for (const [i, waiter] of waiters.entries()) {
      attempts.push(Array.from({ length: 10 }, () => waiter.hold(key, { ms: 1 })));
      await observer.waiting(key, i + 1);
    }

    await holder!.kill();

    const holds = inOrder(
      await Promise.all(attempts.map((own) => Promise.all(own.map(({ ended }) => ended)))),
    );
    expectExclusive(holds);
    const firstHolds = waiters.map((_, i) => holds.findIndex(({ process }) => process === i));
    expect(firstHolds).toEqual([...firstHolds].sort((a, b) => a - b));
    expect(holds).toHaveLength(30);
  });

  it('and its lease has ended: a later call does not overtake the queue', async () => {
    const [holder, waiter, late] = await start(3, 20_000);
    const { token } = await holder!.hold(key).entered;
    const [waiting] = await queueUp([waiter!]);
    waiter!.pause(); // the late call finds the lock free, but the queue not empty
    await holder!.kill();
    await observer.endLease(key);

    const coming = late!.hold(key, { ms: 5 });
    await observer.waiting(key, 1);
    waiter!.resume();

    const first = await waiting!.ended;
    expectExclusive([first, await coming.ended]);
    expect(first.token).toBeGreaterThan(token);
  });
});

describe('a waiter is killed or paused', () => {
  it.each(['head', 'middle', 'tail'])(
    'the %s of the queue is killed: the others enter in turn, at once',
    async (which) => {
      const [holder, ...waiters] = await start(4, LONG_LEASE_MS);
      const holding = holder!.hold(key);
      await holding.entered;
      const attempts = await queueUp(waiters);
      const victim = ['head', 'middle', 'tail'].indexOf(which);
      await waiters[victim]!.kill();

      const first = await holding.release();

      const others = attempts.filter((_, i) => i !== victim);
      const holds = await Promise.all(others.map(({ ended }) => ended));
      expectExclusive([first, ...holds]);
      expect(holds.at(-1)!.entered).toBeLessThan(first.left + SOON_MS);
    },
  );

  it('the head of the queue is paused: the others wait for the acceptance lease, no longer [R12]', async () => {
    const leaseMs = 20_000;
    const acceptMs = 2_000;
    const [holder, head, behind] = await start(3, leaseMs);
    const holding = holder!.hold(key);
    const { token } = await holding.entered;
    const [paused, waiting] = await queueUp([head!, behind!]);

    head!.pause();
    await holding.release();
    const { earliest, latest } = await observer.leaseEnd(key); // granted to the paused process
    expect(latest - sharedNow()).toBeLessThan(acceptMs + 100);

    const next = await waiting!.ended;
    expect(next.entered).toBeGreaterThanOrEqual(earliest);
    expect(next.entered).toBeLessThan(latest + 2_000); // before its own recheck, which is due every 5 s
    expect(next.token).toBeGreaterThan(token);

    // The paused process resumes with an expired grant, and gets another turn.
    head!.resume();
    expectExclusive([next, await paused!.ended]);
  });

  it('a paused waiter that wakes up while another process holds the lock does not enter [R1]', async () => {
    const [holder, head, behind] = await start(3, LEASE_MS);
    const holding = holder!.hold(key);
    await holding.entered;
    const [paused, waiting] = [head!.hold(key), behind!.hold(key)];
    await observer.waiting(key, 2);

    head!.pause();
    const first = await holding.release();
    await waiting.entered;
    head!.resume();
    await sleep(LEASE_MS);
    const second = await waiting.release();
    await paused.entered;

    expectExclusive([first, second, await paused.release()]);
  });

  it('a waiter paused and continued before its turn loses nothing', async () => {
    const [holder, waiter] = await start(2, LONG_LEASE_MS);
    const holding = holder!.hold(key);
    await holding.entered;
    const [paused] = await queueUp([waiter!]);

    waiter!.pause();
    await sleep(300);
    waiter!.resume();
    const first = await holding.release();

    const second = await paused!.ended;
    expectExclusive([first, second]);
    expect(second.entered).toBeLessThan(first.left + SOON_MS);
  });
});

describe('the holder is paused past its lease, then continued', () => {
  it('a successor has entered, the paused one learns it, and its release touches nothing [G3]', async () => {
    const [holder, successor] = await start(2);
    const paused = holder!.hold(key);
    const { token } = await paused.entered;
    const following = successor!.hold(key);
    await observer.waiting(key, 1);

    holder!.pause();
    const next = await following.entered;
    const itsLease = await observer.holder(key);
    holder!.resume();

    const lost = await paused.lost;
    expect(lost).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
    expect(lost.at).toBeGreaterThan(next.entered);
    expect(await paused.probe()).toMatchObject({
      isHeld: false,
      remainingMs: 0,
      assertHeld: 'LOCK_LOST',
      aborted: true,
    });

    await expect(paused.release()).resolves.toMatchObject({ released: false });
    expect(await observer.holder(key)).toBe(itsLease);
    expect(await following.probe()).toMatchObject({ isHeld: true, assertHeld: 'ok' });
    expect(next.token).toBeGreaterThan(token);
    await expect(following.release()).resolves.toMatchObject({ released: true });
  });

  it('callers of the paused process wait for their turn behind the successor [R22]', async () => {
    const [holder, successor] = await start(2);
    const paused = holder!.hold(key);
    await paused.entered;
    const local = holder!.hold(key, { ms: 0 });
    const following = successor!.hold(key);
    await observer.waiting(key, 1);

    holder!.pause();
    await following.entered;
    holder!.resume();
    await paused.lost;
    await observer.waiting(key, 1);
    const second = await following.release();

    expectExclusive([second, await local.ended]);
  });
});

describe('the event loop of the holder is blocked for longer than the lease', () => {
  it.each([
    ['asked by the blocking code itself', true],
    ['asked by the code that runs next', false],
  ])('the lock is not reported as held: %s [D118]', async (_, askAtOnce) => {
    const [holder, successor] = await start(2);
    const blocked = holder!.hold(key);
    const { token } = await blocked.entered;
    const local = holder!.hold(key, { ms: 0 });
    const following = successor!.hold(key);
    await observer.waiting(key, 1);

    const blocking = holder!.call('block', { ms: 3 * LEASE_MS, askAtOnce });
    const next = await following.entered;
    const { from, to, heard } = await blocking;

    expect(next.entered).toBeGreaterThan(from);
    expect(next.entered).toBeLessThan(to);
    expect(heard.map(({ from: whom }) => whom)).toContain('signal');
    expect(heard.length).toBeGreaterThanOrEqual(5);
    expect(heard.filter(({ assertHeld }) => assertHeld !== 'LOCK_LOST')).toEqual([]);

    const lost = await blocked.lost;
    expect(lost.at).toBeGreaterThanOrEqual(to);
    expect(next.token).toBeGreaterThan(token);
    expectExclusive([await following.release(), await local.ended]);
    await expect(blocked.release()).resolves.toMatchObject({ released: false });
  });

  it('nor is another lock of the same process', async () => {
    const [holder] = await start(1);
    const attempts = [holder!.hold(key), holder!.hold(uniqueKey()), holder!.hold(uniqueKey())];
    await Promise.all(attempts.map(({ entered }) => entered));

    const { heard } = await holder!.call('block', { ms: 2 * LEASE_MS, askAtOnce: false });

    expect(heard.filter(({ from }) => from === 'signal')).toHaveLength(3 * attempts.length);
    expect(heard.filter(({ assertHeld }) => assertHeld !== 'LOCK_LOST')).toEqual([]);
    await Promise.all(attempts.map(({ lost }) => lost));
  });
});

describe('Redis', () => {
  it('SCRIPT FLUSH during contention goes unnoticed', async () => {
    const racers = await start(3);
    const counter = `counter:${key}`;
    const order = { key, counter, callers: 3, times: 50, pauseMs: 1 };
    let racing = true;
    const races = Promise.all(racers.map((racer) => racer.call('race', order))).finally(
      () => (racing = false),
    );
    let flushes = 0;
    for (; racing; flushes += 1) {
      await server.admin.script('FLUSH');
      await sleep(20);
    }

    const holds = inOrder(await races);
    expect(flushes).toBeGreaterThan(10);
    expectExclusive(holds);
    expect(holds.filter(({ lost }) => lost)).toEqual([]);
    expect(await server.admin.get(counter)).toBe(String(3 * 3 * 50));
  });

  it('restarted empty: the holder learns of the loss at once, waiters queue again, fencing tokens rise [R26, G14]', async () => {
    const [holder, ...waiters] = await start(4, LONG_LEASE_MS);
    const holding = holder!.hold(key);
    const { token } = await holding.entered;
    const attempts = await queueUp(waiters);

    await server.restart();
    const restarted = sharedNow();

    const holds = inOrder(await Promise.all(attempts.map(async ({ ended }) => [await ended])));
    expectExclusive(holds);
    expect(holds[0]!.token).toBeGreaterThan(token);
    const lost = await holding.lost;
    expect(lost).toMatchObject({ code: 'LOCK_LOST', reason: 'deleted' });
    expect(lost.at).toBeLessThan(restarted + 2 * SOON_MS); // the next renewal is due after 20 s
    await expect(holding.release()).resolves.toMatchObject({ released: false });
  });

  it('restarted empty during a race: every caller gets its turns, fencing tokens rise', async () => {
    const racers = await start(3);
    const order = { key, counter: `counter:${key}`, callers: 3, times: 100, pauseMs: 1 };
    const races = Promise.all(racers.map((racer) => racer.call('race', order)));
    await sleep(500);
    await server.kill(); // all grants of this server are older than now
    const firstTokenOfNewServer = Date.now() * 1_000;
    await server.restart();

    // Holds are exclusive per server. A holder of the old server may overlap with one of the new server; the smaller
    // fencing token tells which of them must give way.
    const holds = inOrder(await races);
    const before = holds.filter(({ token }) => token < firstTokenOfNewServer);
    const after = holds.filter(({ token }) => token >= firstTokenOfNewServer);
    expect(before.length).toBeGreaterThan(0);
    expect(after.length).toBeGreaterThan(0);
    expect(holds).toHaveLength(3 * 3 * 100);
    expectExclusive(before);
    expectExclusive(after);
  });

  it('paused while a lock is held: the signal aborts at the local deadline [D120, G5]', async () => {
    const [holder] = await start(1);
    const holding = holder!.hold(key);
    await holding.entered;

    server.pause();
    await sleep(100); // a reply in flight has arrived, and no other will come
    const { at, remainingMs } = await holding.probe();
    const deadline = at + remainingMs;
    expect(remainingMs).toBeGreaterThan(0);
    const timer = holder!.call('wait', remainingMs); // as late as the signal, on a busy machine

    const lost = await holding.lost;
    expect(lost).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
    expect(lost.at).toBeGreaterThanOrEqual(deadline - 1);
    expect(lost.at).toBeLessThan((await timer) + 50);
    expect(await holding.probe()).toMatchObject({ isHeld: false, assertHeld: 'LOCK_LOST' });

    server.resume();
    await expect(holding.release()).resolves.toMatchObject({ released: false });
    await holder!.hold(key).entered;
  });

  it('paused for less than the lease: the lock is kept', async () => {
    const leaseMs = 3_000;
    const [holder] = await start(1, leaseMs);
    const holding = holder!.hold(key);
    await holding.entered;

    await sleep(leaseMs / 3 - 200); // the renewal is due during the pause
    server.pause();
    await sleep(500);
    server.resume();
    await sleep(leaseMs);

    expect(await holding.probe()).toMatchObject({ isHeld: true, assertHeld: 'ok' });
    await expect(holding.release()).resolves.toMatchObject({ released: true, lost: undefined });
  });
});

function start(count: number, leaseMs = LEASE_MS): Promise<LockProcess[]> {
  return LockProcess.startMany(count, { redisUrl: server.url, leaseMs, waitMs: 25_000 });
}

/** Makes the processes request the lock one after the other, each for a short hold. */
async function queueUp(waiters: readonly LockProcess[]): Promise<Attempt[]> {
  const attempts: Attempt[] = [];
  for (const waiter of waiters) {
    attempts.push(waiter.hold(key, { ms: 5 }));
    await observer.waiting(key, attempts.length);
  }
  return attempts;
}
