import { describe, expect, it } from '@jest/globals';
import type { RedisClient } from '../../../libs/nestjs-locked/src/redis/connection/server/redis-client.js';
import { eventually } from '../../support/eventually.js';
import { connectTo, versions } from '../../support/ioredis-versions.js';
import {
  connectionsNamed,
  LEASE_MS,
  newRedisStore,
  openRedisStore,
} from '../../support/open-redis-store.js';
import { startRedisServer, useRedisServer } from '../../support/own-redis.js';
import { TcpProxy } from '../../support/tcp-proxy.js';

const server = useRedisServer();

describe.each(versions)('the inbox over %s', (_version, connect) => {
  it('is ready after open, and after close neither ready nor connected nor waiting for a timer', async () => {
    const client = connectTo(connect, server.url);
    const peer = newRedisStore(client);
    expect(peer.store.listensFor('any')).toBe(false);

    await peer.store.open(peer.events);
    expect(peer.store.listensFor('any')).toBe(true);
    expect(await server.admin.pubsub('NUMSUB', peer.channel)).toEqual([peer.channel, 1]);
    expect(await connectionsNamed(peer.channel, server.admin)).toHaveLength(1);

    await peer.store.close();
    expect(peer.store.listensFor('any')).toBe(false);
    expect(peer.clock.timers).toBe(0);
    await eventually(async () =>
      expect(await connectionsNamed(peer.channel, server.admin)).toEqual([]),
    );
    expect(peer.events.log.all).toEqual([]);
  });

  it('reconnects each time it is killed; messages arrive when it says so', async () => {
    const peer = await openRedisStore(connectTo(connect, server.url));
    for (let round = 1; round <= 4; round++) {
      const [id = ''] = await connectionsNamed(peer.channel, server.admin);
      const subscribers = new Promise<unknown>((resolve) => {
        peer.events.reconnected = () => {
          peer.events.log.add('reconnected');
          resolve(server.admin.pubsub('NUMSUB', peer.channel));
        };
      });

      await server.admin.client('KILL', 'ID', id);

      expect(await peer.events.next()).toBe('inboxLost');
      expect(await peer.events.next()).toBe('reconnected');
      expect(await subscribers).toEqual([peer.channel, 1]);
      expect(peer.store.listensFor('any')).toBe(true);
      await server.admin.publish(peer.channel, `w ${round} x`);
      expect(await peer.events.next()).toEqual({ kind: 'wanted', token: String(round), key: 'x' });
    }
  });

  it('reconnects when its server is back', async () => {
    const own = await startRedisServer();
    const peer = await openRedisStore(connectTo(connect, own.url));

    await own.kill();
    expect(await peer.events.next()).toBe('inboxLost');
    expect(peer.store.listensFor('any')).toBe(false);
    await own.restart();

    await eventually(() => expect(peer.store.listensFor('any')).toBe(true));
    const token = peer.token();
    await eventually(async () =>
      expect(
        await peer.store.acquire({ key: 'x', token, leaseMs: LEASE_MS, nowait: false }),
      ).toMatchObject({ kind: 'granted' }),
    );
  });

  it('says that messages may have been lost when the command connection is ready again', async () => {
    const peer = await openRedisStore(connectTo(connect, server.url));
    const [id = ''] = await connectionsNamed(peer.commands, server.admin);

    await server.admin.client('KILL', 'ID', id);

    expect(await peer.events.next()).toBe('reconnected');
    expect(peer.store.listensFor('any')).toBe(true);
  });

  it.each([
    ['its connection', {}],
    ['a connection whose socket ioredis does not watch (before 5.4)', { socketTimeout: undefined }],
  ])('notices that %s has fallen silent [R13]', async (_, override) => {
    const proxy = await TcpProxy.start(server.port);
    const client = connectTo(connect, proxy.url);
    const duplicate = client.duplicate.bind(client) as RedisClient['duplicate'];
    const peer = await openRedisStore(
      {
        options: client.options,
        duplicate: (options: object) => duplicate({ ...options, ...override }),
      },
      { leaseMs: 1_500 },
    );

    proxy.silenceNewest();

    expect(await peer.events.next()).toBe('inboxLost');
    expect(await peer.events.next()).toBe('reconnected');
    expect(await server.admin.pubsub('NUMSUB', peer.channel)).toEqual([
      peer.channel,
      expect.any(Number),
    ]);
    await server.admin.publish(peer.channel, 'w 1 x');
    expect(await peer.events.next()).toEqual({ kind: 'wanted', token: '1', key: 'x' });
  });

  it('notices that a new connection is silent from the start', async () => {
    const proxy = await TcpProxy.start(server.port);
    const peer = await openRedisStore(connectTo(connect, proxy.url), { leaseMs: 1_500 });

    const next = proxy.nextConnection();
    proxy.silenceNewest({ alsoToCome: true });
    expect(await peer.events.next()).toBe('inboxLost');
    await next;
    proxy.heal();

    expect(await peer.events.next()).toBe('reconnected');
  });

  it('reports it once, and has one timer, after a subscription that was interrupted', async () => {
    const proxy = await TcpProxy.start(server.port);
    const peer = await openRedisStore(connectTo(connect, proxy.url), { leaseMs: 15_000 });
    const [id = ''] = await connectionsNamed(peer.channel, server.admin);
    const timers = peer.clock.timers;

    const unanswered = proxy.silenceAt('subscribe');
    await server.admin.client('KILL', 'ID', id);
    await unanswered;
    proxy.cutNewest();

    expect(await peer.events.next()).toBe('inboxLost');
    expect(await peer.events.next()).toBe('reconnected');
    await server.admin.publish(peer.channel, 'w 1 x');
    expect(await peer.events.next()).toEqual({ kind: 'wanted', token: '1', key: 'x' });
    // The time limit of the unanswered subscription stays until it is over.
    await eventually(() => expect(peer.clock.timers).toBe(timers));
  });

  it('ignores messages of others [R33]', async () => {
    const peer = await openRedisStore(connectTo(connect, server.url));
    for (const text of [
      '',
      ' ',
      'x',
      'w',
      'g',
      'g a',
      'g a 1 2 x 4 n',
      'h a',
      'h a x n',
      'probe',
      'probe 1',
      '{}',
    ]) {
      await server.admin.publish(peer.channel, text);
    }
    await server.admin.publish(peer.channel, 'w 1 last');

    expect(await peer.events.next()).toEqual({ kind: 'wanted', token: '1', key: 'last' });
  });
});
