/** `detach` and `adopt` between processes, of which the first ones are killed. */
import { afterAll, afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { expectExclusive } from '../support/hold-history.js';
import { LockObserver } from '../support/lock-observer.js';
import { LockProcess } from '../support/lock-process.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 1_000;
const FOR_MS = 20_000;
/** Upper bound for what takes milliseconds on an idle machine. */
const SOON_MS = 5_000;

afterAll(() => LockProcess.endAll());
const server = useRedisServer();
const observer = new LockObserver(server);
let key: string;

beforeEach(() => {
  key = uniqueKey();
});
afterEach(() => LockProcess.closeAll());

function start(count: number): Promise<LockProcess[]> {
  return LockProcess.startMany(count, { redisUrl: server.url, leaseMs: LEASE_MS, waitMs: 25_000 });
}

describe('a process detaches its lock and is killed', () => {
  it('another one goes on under it long after the lease of the first, and a waiter comes after it [G47]', async () => {
    const [first, second, waiter] = (await start(3)) as [LockProcess, LockProcess, LockProcess];
    const holding = first.hold(key);
    const { token } = await holding.entered;
    const waiting = waiter.hold(key, { ms: 0 });
    await observer.waiting(key, 1);
    const text = await holding.detach(FOR_MS);
    await first.kill();
    await waiter.call('wait', 2 * LEASE_MS);
    await observer.waiting(key, 1); // nobody has got it meanwhile

    const adopted = await second.adopt(text, 3 * LEASE_MS); // it is renewed
    const next = await waiting.ended;
    expect(adopted.token).toBeGreaterThan(token);
    expect(adopted.lost).toBeUndefined();
    expectExclusive([adopted, next]);
    expect(next.entered - adopted.left).toBeLessThan(SOON_MS);
  });

  it('of two processes, exactly one adopts it [G47]', async () => {
    const [first, ...others] = (await start(3)) as [LockProcess, LockProcess, LockProcess];
    const holding = first.hold(key);
    await holding.entered;
    const text = await holding.detach(FOR_MS);
    await first.kill();
    const tries = await Promise.allSettled(others.map((other) => other.adopt(text, 100)));
    expect(tries.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    const refused = tries.find(({ status }) => status === 'rejected') as PromiseRejectedResult;
    expect(refused.reason).toMatchObject({ code: 'LOCK_NOT_ADOPTED' });
  });

  it('nobody adopts it in time: the waiter gets it then, and the late one is refused', async () => {
    const [first, late, waiter] = (await start(3)) as [LockProcess, LockProcess, LockProcess];
    const holding = first.hold(key);
    await holding.entered;
    const text = await holding.detach(2 * LEASE_MS);
    await first.kill();
    const waiting = waiter.hold(key);
    await observer.waiting(key, 1);
    const { earliest, latest } = await observer.leaseEnd(key);
    const { entered } = await waiting.entered;
    expect(entered).toBeGreaterThanOrEqual(earliest);
    expect(entered).toBeLessThan(latest + SOON_MS);
    await expect(late.adopt(text)).rejects.toMatchObject({ code: 'LOCK_NOT_ADOPTED' });
    await waiting.release();
    await expect(late.adopt(text)).rejects.toMatchObject({ code: 'LOCK_NOT_ADOPTED' });
  });

  it('the one that has adopted it is killed: its own lease counts', async () => {
    const [first, second, waiter] = (await start(3)) as [LockProcess, LockProcess, LockProcess];
    const holding = first.hold(key);
    await holding.entered;
    const text = await holding.detach(FOR_MS);
    await first.kill();
    second.adopt(text, 60_000).catch(() => {});
    const waiting = waiter.hold(key, { ms: 0 });
    await observer.waiting(key, 1);
    await waiter.call('wait', 200);
    await second.kill();
    const { latest } = await observer.leaseEnd(key);
    const { entered } = await waiting.ended;
    expect(entered).toBeLessThan(latest + SOON_MS);
  });
});
