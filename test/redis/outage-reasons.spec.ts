/** Why Redis cannot be reached, as Redis or the socket says after the connection has broken. */
import { describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { Socket } from 'node:net';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { startRedisServer } from '../support/own-redis.js';
import { standStill } from '../support/stand-still.js';

/** What the log would say of the store. */
function reasons(events: readonly LockEvent[]): string[] {
  return events.flatMap((event) => (event.type === 'store-lost' ? [event.cause.message] : []));
}

async function cutAll(admin: Redis): Promise<void> {
  await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
}

type Method = (this: unknown, ...event: unknown[]) => unknown;

/** The server has handled every new connection before this process begins to use it. */
function standStillWhenConnected(): void {
  const methods = Socket.prototype as unknown as Record<'emit', Method>;
  const original = methods.emit;
  methods.emit = function (...event) {
    if (event[0] === 'connect') standStill(20);
    return Reflect.apply(original, this, event);
  };
  afterTest(() => void (methods.emit = original));
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

  it('is reported: the server has too many connections, and has closed ours before we use it', async () => {
    const server = await startRedisServer();
    const admin = openAdmin(server.url);
    const { engine, events } = await openLocks(server.url);
    await admin.config('SET', 'maxclients', '1');
    standStillWhenConnected();
    await cutAll(admin);
    await eventually(() => expect(reasons(events)).not.toEqual([]));
    expect(reasons(events)[0]).toContain('max number of clients');
    await admin.config('SET', 'maxclients', '1000');
    await eventually(() => engine.ping());
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
    expect(reasons(events).join()).not.toContain('Redis has said nothing');
  });
});
