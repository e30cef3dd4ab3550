import { describe, expect, it } from '@jest/globals';
import { eventually } from '../../support/eventually.js';
import { connectTo, ioredis6 } from '../../support/ioredis-versions.js';
import { openRedisStore } from '../../support/open-redis-store.js';
import { useRedisServer } from '../../support/own-redis.js';
import { TcpProxy } from '../../support/tcp-proxy.js';

const server = useRedisServer();

describe('a connection that breaks while the store is closed', () => {
  it('leaves neither a timer nor the entry of this process behind [D45]', async () => {
    const proxy = await TcpProxy.start(server.port);
    const peer = await openRedisStore(connectTo(ioredis6, proxy.url));
    const unanswered = proxy.silenceAt('del');
    const closed = peer.store.close();
    await unanswered;
    proxy.cut();
    await closed;
    // A subscription in flight ends with its connection, within half a second.
    await eventually(() => expect(peer.clock.timers).toBe(0), 1_000);
    expect(await server.admin.exists(`${peer.keyPrefix}process:${peer.store.processId}`)).toBe(0);
  });
});
