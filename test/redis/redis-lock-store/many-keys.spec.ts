/** Commands for many keys: the outcome of one does not affect the others. */
import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { RenewReply } from '../../../libs/nestjs-locked/src/core/store/lock-store.js';
import { readOutcome } from '../../../libs/nestjs-locked/src/redis/read-outcome.js';
import {
  readProlongReply,
  readRenewReply,
  readTakeBackReply,
} from '../../../libs/nestjs-locked/src/redis/scripts/script-replies.js';
import { afterTest } from '../../support/after-test.js';
import { LEASE_MS, openRedisStore } from '../../support/open-redis-store.js';
import { useRedisServer } from '../../support/own-redis.js';
import { uniqueKey } from '../../support/unique-key.js';

const server = useRedisServer();

/** A process with these leases, and a user of its own on the server, whose rights the test can take away. */
async function holding(keys: readonly string[]) {
  const username = uniqueKey('user');
  await server.admin.acl('SETUSER', username, 'on', '>secret', '+@all', '~*', '&*');
  const client = new Redis(server.url, { username, password: 'secret', lazyConnect: true });
  afterTest(() => client.disconnect());
  const peer = await openRedisStore(client);
  const { store } = peer;
  const leases = keys.map((key) => ({ key, token: peer.token() }));
  for (const { key, token } of leases)
    await store.acquire({ key, token, leaseMs: LEASE_MS, nowait: false });
  const renew = (): Promise<RenewReply[]> =>
    Promise.all(
      store.renew(leases.map((it) => ({ ...it, leaseMs: LEASE_MS, used: 0, reserves: 0 }))),
    );
  const takeBack = () =>
    Promise.all(store.takeBack(leases.map(({ key, token }) => ({ key, tokens: [token] }))));
  const allowOnly = async (allowed: readonly string[]): Promise<void> => {
    const patterns = [peer.fence, ...allowed.map((key) => `${peer.lockOf(key)}*`)];
    await server.admin.acl('SETUSER', username, 'resetkeys', ...patterns.map((it) => `~${it}`));
  };
  const taken = async (): Promise<number> =>
    server.admin.exists(...keys.map((key) => peer.lockOf(key)));
  return { ...peer, leases, renew, takeBack, allowOnly, taken };
}

async function scriptsSent(): Promise<number> {
  const stats = await server.admin.info('commandstats');
  return Number(/^cmdstat_evalsha:calls=(\d+)/m.exec(stats)?.[1]);
}

const THREE = ['a', 'b', 'c'];

describe('many keys', () => {
  it('share scripts, a hundred keys each', async () => {
    const keys = Array.from({ length: 250 }, (_, i) => `k:${i}`);
    const { renew, takeBack, taken } = await holding(keys);
    let before = await scriptsSent();
    expect(await renew()).toEqual(keys.map(() => ({ kind: 'renewed', blockEnd: 0, waiters: 0 })));
    expect(await scriptsSent()).toBe(before + 3);
    before = await scriptsSent();
    expect(await takeBack()).toEqual(keys.map(() => ({ kind: 'left' })));
    expect(await scriptsSent()).toBe(before + 3);
    expect(await taken()).toBe(0);
  });

  it('are renewed together whether they need numbers or not, and answered in their order', async () => {
    const { store, leases } = await holding(Array.from({ length: 9 }, (_, i) => `k:${i}`));
    const before = await scriptsSent();
    const replies = await Promise.all(
      store.renew(
        leases.map(({ key, token }, i) => {
          const isOurs = i % 4 !== 3;
          const other = isOurs ? token : `${token}0`;
          return { key, token: other, leaseMs: LEASE_MS, used: 1, reserves: i % 3 === 0 ? 5 : 0 };
        }),
      ),
    );
    expect(await scriptsSent()).toBe(before + 2);
    expect(
      replies.map((reply) => (reply.kind === 'renewed' ? reply.blockEnd > 0 : reply.kind)),
    ).toEqual([true, false, false, 'lost', false, false, true, 'lost', false]);
  });

  it('are renewed and taken back although the user may no longer use one of them [D49]', async () => {
    const { renew, takeBack, taken, allowOnly } = await holding(THREE);
    await allowOnly(['a', 'c']);
    const refused = { kind: 'unknown', cause: { message: expect.stringContaining('NOPERM') } };
    const renewed = { kind: 'renewed' };
    expect(await renew()).toMatchObject([renewed, refused, renewed]);
    expect(await takeBack()).toMatchObject([{ kind: 'left' }, refused, { kind: 'left' }]);
    expect(await taken()).toBe(1);
  });

  it('are taken back although one of them is broken', async () => {
    const { takeBack, fence, keyPrefix, taken } = await holding(THREE);
    const client = new Redis(server.url, { lazyConnect: true });
    afterTest(() => client.disconnect());
    const waiter = await openRedisStore(client, { keyPrefix });
    const ask = { key: 'b', token: waiter.token(), leaseMs: LEASE_MS, nowait: false };
    expect(await waiter.store.acquire(ask)).toMatchObject({ kind: 'queued' });
    await server.admin.del(fence);
    await server.admin.rpush(fence, 'of another type');
    const broken = { kind: 'unknown', cause: { message: expect.stringContaining('WRONGTYPE') } };
    expect(await takeBack()).toMatchObject([{ kind: 'left' }, broken, { kind: 'left' }]);
    expect(await taken()).toBe(0);
  });
});

describe('an answer with another number of entries than there were keys', () => {
  const read = (reply: unknown) =>
    readOutcome({ kind: 'answered', reply, mayHaveRunBefore: false }, (it) =>
      readRenewReply(it, 2),
    );
  const renewed = [0, 0];

  it.each([
    ['too few', [renewed]],
    ['too many', [renewed, renewed, renewed]],
    ['none', []],
    ['an entry of another length', [renewed, [0, 0, 0]]],
    ['half an entry', [renewed, [0]]],
    ['no list', 'OK'],
    ['nothing', null],
  ])('renews none of them, and loses none: %s [D49]', (_, reply) => {
    expect(read(reply)).toMatchObject({
      kind: 'unknown',
      cause: {
        message: expect.stringMatching(/^Cannot read the answer of Redis: .*unexpected reply/),
      },
    });
    expect(read([renewed, []])).toEqual([
      { kind: 'renewed', blockEnd: 0, waiters: 0 },
      { kind: 'lost' },
    ]);
  });

  it.each([
    ['too few', [1]],
    ['too many', [3]],
    ['too many that were lost', [2, [1]]],
    ['one that was not asked for', [2, [3, 1]]],
    ['none', []],
    ['more about one', [2, [1, 2, 3]]],
    ['nothing about one', [2, []]],
    ['no number', [2, ['x', 1]]],
    ['no list', 'OK'],
    ['nothing', null],
  ])('prolongs none of them, and loses none: %s', (_, reply) => {
    expect(() => readProlongReply(reply, 2)).toThrow('unexpected reply');
    expect(readProlongReply([1, [1], [2, 7]], 2)).toEqual([
      { kind: 'lost' },
      { kind: 'renewed', blockEnd: 0, waiters: 7 },
    ]);
  });

  it('takes none of them back', () => {
    expect(() => readTakeBackReply(['left'], 2)).toThrow('unexpected reply ["left"]');
    expect(readTakeBackReply(['left', 'ERR broken'], 2)).toEqual([undefined, 'ERR broken']);
  });
});
