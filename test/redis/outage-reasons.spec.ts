/** Why Redis cannot be reached, as Redis or the socket says after the connection has broken. */
import { describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { startRedisServer } from '../support/own-redis.js';
import { standStillWhenConnected } from '../support/stand-still.js';

/** What the log would say of the store. */
function reasons(events: readonly LockEvent[]): string[] {
  return events.flatMap((event) => (event.type === 'store-lost' ? [event.cause.message] : []));
}

/** How many connections it has refused. */
async function rejected(admin: Redis): Promise<number> {
  return Number(/rejected_connections:(\d+)/.exec(await admin.info('stats'))?.[1]);
}

async function cutAll(admin: Redis): Promise<void> {
  await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
}

describe('the reason of an outage', () => {
  const user = ['ACL', 'SETUSER', 'app'] as const;
  it.each([
    {
      why: 'the user was disabled',
      begin: (admin: Redis) => admin.call(...user, 'off'),
      says: 'WRONGPASS',
    },
    {
      why: 'the password was changed',
      begin: (admin: Redis) => admin.call(...user, 'resetpass', '>other'),
      says: 'WRONGPASS',
    },
  ])('is reported, and is the error of calls and `ping`: $why', async ({ begin, says }) => {
    const server = await startRedisServer();
    const admin = openAdmin(server.url);
    await admin.call(...user, 'on', '>secret', '~*', '&*', '+@all');
    const url = `redis://app:secret@127.0.0.1:${server.port}`;
    const { engine, events } = await openLocks(url);
    await begin(admin);
    await cutAll(admin);
    const failed = expect(engine.acquire('waits', { waitMs: 1 })).rejects.toThrow(says);
    await eventually(() => expect(reasons(events).at(-1)).toContain(says));
    await expect(engine.ping()).rejects.toThrow(says);
    await failed;
  });

  it('is reported, and is the error of `ping`: the server is gone', async () => {
    const server = await startRedisServer();
    const { engine, events } = await openLocks(server.url);
    await server.kill();
    await eventually(() => expect(reasons(events).at(-1)).toContain('ECONNREFUSED'));
    await expect(engine.ping()).rejects.toThrow('ECONNREFUSED');
  });

  it.each(['TCP', 'a Unix socket'])(
    'is reported: the server has too many connections, and has closed ours, by %s, before we use it',
    async (by) => {
      const folder = mkdtempSync(join(tmpdir(), 'full-redis-'));
      afterTest(() => rmSync(folder, { recursive: true, force: true }));
      const socket = join(folder, 'redis.sock');
      const server = await startRedisServer('--unixsocket', socket);
      const admin = openAdmin(server.url);
      const { engine, events } = await openLocks(by === 'TCP' ? server.url : `unix://${socket}`);
      await admin.config('SET', 'maxclients', '1');
      standStillWhenConnected();
      await cutAll(admin);
      await eventually(async () => expect(await rejected(admin)).toBeGreaterThan(5));
      await admin.config('SET', 'maxclients', '1000');
      await eventually(() => engine.ping());
      expect(reasons(events)).not.toEqual([]);
      expect(reasons(events).filter((why) => !why.includes('max number of clients'))).toEqual([]);
    },
  );

  it('is reported: the server had too many connections, and is gone now', async () => {
    const server = await startRedisServer();
    const admin = openAdmin(server.url);
    const { engine, events } = await openLocks(server.url);
    await admin.config('SET', 'maxclients', '1');
    await cutAll(admin);
    await eventually(() => expect(reasons(events).join()).toContain('max number of clients'));
    await server.kill();
    await eventually(() => expect(reasons(events).at(-1)).toContain('ECONNREFUSED'));
    await expect(engine.ping()).rejects.toThrow('ECONNREFUSED');
  });

  it('is reported again when it changes, but not that a silent server is still silent', async () => {
    const server = await startRedisServer();
    const { engine, events } = await openLocks(server.url, { leaseMs: 1_500 });
    server.pause();
    engine.acquire('any', { waitMs: 60_000 }).catch(() => {});
    await eventually(() => expect(reasons(events)).toHaveLength(1));
    // The next connection was silent as well.
    const isTried = (): Promise<unknown> => engine.inspect('any').catch(String);
    await eventually(async () => expect(await isTried()).toContain('Redis has said nothing'));
    expect(reasons(events)).toHaveLength(1);
    await server.kill();
    await eventually(() => expect(reasons(events).at(-1)).toContain('ECONNREFUSED'));
    expect(reasons(events).slice(1).join()).not.toContain('Redis has said nothing');
  });
});
