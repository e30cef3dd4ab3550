/** What is reported of an idle connection that did not answer. That a device has dropped it must be true. */
import { describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { IdleReplacement } from '../../libs/nestjs-locked/src/redis/connection/silence/idle-replacement.js';
import { eventually } from '../support/eventually.js';
import { FakeClock } from '../support/fake-clock.js';
import { type OpenedLocks, openLocks } from '../support/open-locks.js';
import { useRedisServer } from '../support/own-redis.js';
import { TcpProxy } from '../support/tcp-proxy.js';

const server = useRedisServer();

/** A command may take a third of it, and the first one on an idle connection a sixth. */
const LEASE_MS = 1_500;
const LIMIT_MS = 500;
/** After such a silence, a connection is idle. */
const IDLE_MS = 300;

function count({ events }: OpenedLocks, type: string): number {
  return events.filter((event) => event.type === type).length;
}

describe('no warning about devices that drop connections', () => {
  it('when Redis is paused for writes: it accepts the new connection, and answers no command', async () => {
    const locks = await openLocks(server.url, { leaseMs: LEASE_MS });
    await sleep(IDLE_MS);
    await server.admin.call('CLIENT', 'PAUSE', 60_000, 'WRITE');
    await locks.engine.tryAcquire('paused').catch(() => {});
    await eventually(() => expect(count(locks, 'store-lost')).toBeGreaterThan(0));
    await server.admin.call('CLIENT', 'UNPAUSE');
    await eventually(() => expect(count(locks, 'store-back')).toBeGreaterThan(0));
    expect(await locks.engine.ping()).toBeGreaterThanOrEqual(0);
    expect(count(locks, 'connection-replaced')).toBe(0);
  });

  it('when commands were not answered either', async () => {
    const proxy = await TcpProxy.start(server.port);
    const locks = await openLocks(proxy.url, { leaseMs: LEASE_MS });
    await sleep(IDLE_MS);
    proxy.silenceAll();
    locks.engine.tryAcquire('silent').catch(() => {});
    await eventually(() => expect(locks.store.listensFor('any')).toBe(false));
    proxy.heal();
    proxy.cut();
    await eventually(async () => expect(await locks.engine.ping()).toBeGreaterThanOrEqual(0));
    await eventually(() => expect(locks.store.listensFor('any')).toBe(true));
    const told = locks.events.flatMap((event) =>
      event.type === 'connection-replaced' ? [event.cause.message] : [],
    );
    expect(told.join()).not.toContain('messages');
  });

  it('when no new connection for messages could be made in time', async () => {
    const proxy = await TcpProxy.start(server.port);
    const locks = await openLocks(proxy.url, { leaseMs: LEASE_MS });
    proxy.silenceNewest({ alsoToCome: true });
    await eventually(() => expect(locks.store.listensFor('any')).toBe(false));
    await sleep(1.2 * LIMIT_MS);
    proxy.heal();
    await eventually(() => expect(locks.store.listensFor('any')).toBe(true));
    expect(count(locks, 'connection-replaced')).toBe(0);
  });
});

describe('the successor of an idle connection', () => {
  it('is too late when its time is over, not counting the time in which this process stood still', async () => {
    const clock = new FakeClock();
    const replacement = new IdleReplacement(clock);
    let late = 0;
    replacement.begins(250, 500, () => late++);
    await clock.advance(200);
    clock.block(5_000);
    await clock.advance(200);
    expect(late).toBe(0);
    await clock.advance(300);
    expect(late).toBe(1);
  });
});
