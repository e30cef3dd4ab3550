/** Rights that the Redis user loses while its process works: who gets the key, and what is reported. */
import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { concurrentIt } from '../support/concurrent.js';
import { eventually } from '../support/eventually.js';
import { startMasterAndReplica } from '../support/master-and-replica.js';
import { type OpenedLocks, openLocksOn } from '../support/open-locks.js';
import { openReplicatedLocks } from '../support/open-replicated-locks.js';
import { useRedisServer } from '../support/own-redis.js';
import { race } from '../support/race.js';
import { uniqueKey } from '../support/unique-key.js';

/** Connections are checked three times in a lease, and the proof is repeated with every sixth check. */
const LEASE_MS = 900;
const PROOF_MS = 2 * LEASE_MS;

const server = useRedisServer();
const all = ['reset', 'on', '>secret', '~*', '&*', '+@all'];

/** A user with all rights, and lock services of this user, whose rights can be taken away. */
async function createUser() {
  const user = uniqueKey('user');
  const setUser = (...rules: string[]): Promise<unknown> =>
    server.admin.call('ACL', 'SETUSER', user, ...rules);
  const openImpaired = (leaseMs = LEASE_MS): Promise<OpenedLocks> =>
    openLocksOn({ port: server.port, username: user, password: 'secret' }, { leaseMs });
  await setUser(...all);
  return { user, setUser, openImpaired };
}

/** A lock service that keeps its rights. */
const openHealthy = (leaseMs = LEASE_MS): Promise<OpenedLocks> =>
  openLocksOn({ port: server.port }, { leaseMs });

/** What was reported about rights, messages and the store, in order. */
const told = ({ events }: Pick<OpenedLocks, 'events'>): string[] =>
  events.map(({ type }) => type).filter((type) => /^(rights|inbox|store)-/.test(type));

describe('a process whose user may no longer ask who listens', () => {
  it('takes nothing from the others: each has its share, and nobody waits for long [R3]', async () => {
    const { setUser, openImpaired } = await createUser();
    const [impaired, healthy] = [await openImpaired(30_000), await openHealthy(30_000)];
    await setUser('-pubsub');
    for (const { holds, longestMs, errors } of await race([impaired, healthy], { holds: 300 })) {
      expect(errors).toEqual([]);
      expect(holds).toBeGreaterThan(50);
      expect(longestMs).toBeLessThan(4_500); // a waiter polls after five seconds
    }
  });

  it('keeps the order although all such processes have lost the right', async () => {
    const { setUser, openImpaired } = await createUser();
    const [one, other] = [await openImpaired(), await openImpaired()];
    await setUser('-pubsub');
    for (const { holds, errors } of await race([one, other], { holds: 200 })) {
      expect(errors).toEqual([]);
      expect(holds).toBeGreaterThan(30);
    }
  });
});

describe('a process whose user may no longer read the queue', () => {
  it('does not grant itself its lease again: others get the key when they check', async () => {
    const { setUser, openImpaired } = await createUser();
    const [impaired, healthy] = [await openImpaired(), await openHealthy()];
    await setUser('-zrange');
    const [own, other] = await race([impaired, healthy], { holds: 200 });
    expect(other!.holds).toBeGreaterThan(own!.holds / 6);
    expect(other!.errors).toEqual([]);
    for (const error of own!.errors) expect(error).toBeInstanceOf(LockStoreError);
  });
});

/** The reason is worded by Redis, and differs with its version. The remedy is ours. */
const TOLD =
  /(permission|can't run).* \(at redis:.*; give the Redis user .*: ACL SETUSER <user> ~lock:\* &lock:inbox:\* .*\+pubsub/;

/** The right that is taken away; all rights are given back. */
const losses: readonly { name: string; take: string[]; refuses?: true }[] = [
  { name: 'to ask who listens', take: ['-pubsub'] },
  { name: 'to publish', take: ['-publish'] },
  { name: 'to run scripts', take: ['-evalsha', '-eval'], refuses: true },
  { name: 'to read queues', take: ['-zrange'] },
  { name: 'to write keys', take: ['-set'] },
  { name: 'to the keys', take: ['resetkeys', '~other:*'], refuses: true },
  { name: 'to everything', take: ['-@all'], refuses: true },
];

describe('a user who loses a right', () => {
  concurrentIt.each(losses)(
    '$name: is reported once, ping() fails meanwhile, and both end when the right is back',
    async ({ take, refuses }) => {
      const { setUser, openImpaired } = await createUser();
      const [impaired, healthy] = [await openImpaired(), await openHealthy()];
      await expect(impaired.engine.ping()).resolves.toBeGreaterThan(0);
      await setUser(...take);

      await eventually(() => expect(told(impaired)).toEqual(['rights-lost']));
      const [lost] = impaired.events.filter(({ type }) => type === 'rights-lost');
      expect(lost).toMatchObject({ cause: { message: expect.stringMatching(TOLD) } });
      await expect(impaired.engine.ping()).rejects.toBeInstanceOf(LockStoreError);
      const [own, other] = await race([impaired, healthy], { holds: 100, waitMs: 10_000 });
      expect(other!.errors).toEqual([]);
      expect(other!.holds).toBeGreaterThan(0);
      if (refuses) expect(own).toMatchObject({ holds: 0 });
      for (const error of own!.errors) expect(error).toBeInstanceOf(LockStoreError);
      await sleep(PROOF_MS);
      expect(told(impaired)).toEqual(['rights-lost']);

      await setUser(...all);
      await eventually(() => expect(told(impaired)).toEqual(['rights-lost', 'rights-back']));
      await expect(impaired.engine.ping()).resolves.toBeGreaterThan(0);
      for (const { holds, errors } of await race([impaired, healthy], { holds: 100 })) {
        expect(errors).toEqual([]);
        expect(holds).toBeGreaterThan(0);
      }
      expect(told(healthy)).toEqual([]);
    },
  );

  it('is reported with the next check if it is the right to ask who listens', async () => {
    const { setUser, openImpaired } = await createUser();
    const impaired = await openImpaired(30_000); // the proof itself is repeated every 30 seconds
    await setUser('-pubsub');
    await eventually(() => expect(told(impaired)).toEqual(['rights-lost']), 12_000);
  });

  it('is reported for the right to send scripts whole when Redis has forgotten them', async () => {
    const { setUser, openImpaired } = await createUser();
    const impaired = await openImpaired();
    await setUser('-eval');
    await sleep(PROOF_MS);
    expect(told(impaired)).toEqual([]);
    await eventually(async () => {
      await server.admin.script('FLUSH'); // again, because a new connection loads them
      expect(told(impaired)).toEqual(['rights-lost']);
    });
    await setUser('+eval');
    await eventually(() => expect(told(impaired)).toEqual(['rights-lost', 'rights-back']));
  });
});

describe('a server that refuses every write because its memory is full', () => {
  it('is reported once, ping() fails meanwhile, and both end when it has memory again', async () => {
    const locks = await openHealthy();
    await server.admin.config('SET', 'maxmemory', '1');
    try {
      await eventually(() => expect(told(locks)).toEqual(['rights-lost']));
      const [lost] = locks.events.filter(({ type }) => type === 'rights-lost');
      const says = expect.stringMatching(/^OOM .* \(at redis:.*; give Redis .*memory/);
      expect(lost).toMatchObject({ cause: { message: says } });
      await expect(locks.engine.ping()).rejects.toBeInstanceOf(LockStoreError);
    } finally {
      await server.admin.config('SET', 'maxmemory', '0');
    }
    await eventually(() => expect(told(locks)).toEqual(['rights-lost', 'rights-back']));
    await expect(locks.engine.ping()).resolves.toBeGreaterThan(0);
  });
});

describe('a user who may no longer ask the replicas', () => {
  it('is reported, and again when the right is back, even over new connections', async () => {
    const { master, onMaster } = await startMasterAndReplica();
    const set = (...rules: string[]) => onMaster.call('ACL', 'SETUSER', 'app', ...rules);
    await set(...all);
    const connection = { port: master.port, username: 'app', password: 'secret' };
    const { engine, events } = await openReplicatedLocks(connection, { leaseMs: LEASE_MS });
    const tell = (): string[] => told({ events });
    await set('-wait');
    await eventually(() => expect(tell()).toEqual(['rights-lost']));
    await expect(engine.ping()).rejects.toBeInstanceOf(LockStoreError);
    await onMaster.call('CLIENT', 'KILL', 'USER', 'app');
    await sleep(PROOF_MS);
    expect(tell()).toEqual(['rights-lost']);
    await expect(engine.tryAcquire(uniqueKey())).rejects.toBeInstanceOf(LockStoreError);

    await set('+wait');
    await eventually(() => expect(tell()).toEqual(['rights-lost', 'rights-back']));
    await eventually(() => engine.ping());
    await (await engine.acquire(uniqueKey())).release();
  });
});

describe('a user who may no longer use the channels', () => {
  concurrentIt(
    'is reported, although Redis closes the subscription and refuses a new one',
    async () => {
      const { setUser, openImpaired } = await createUser();
      const [impaired, healthy] = [await openImpaired(), await openHealthy()];
      await setUser('resetchannels');
      await eventually(() => expect(told(impaired)).toContain('inbox-lost'));
      await expect(impaired.engine.ping()).rejects.toBeInstanceOf(LockStoreError);
      const [own, other] = await race([impaired, healthy], { holds: 100, waitMs: 10_000 });
      expect([own!.errors, other!.errors]).toEqual([[], []]);
      expect(other!.holds).toBeGreaterThan(0);

      await setUser('allchannels');
      await eventually(() => expect(told(impaired).at(-1)).toMatch(/-back$/));
      await eventually(() => impaired.engine.ping());
    },
  );

  concurrentIt(
    'is reported for both if the keys are lost as well, and ping() names what every lock needs',
    async () => {
      const { setUser, openImpaired } = await createUser();
      const impaired = await openImpaired();
      await setUser('resetkeys', 'resetchannels', '~other:*', '&other:*');
      // No lock is requested, so only a check can find it, although the inbox does not reconnect.
      await eventually(() => expect(told(impaired)).toContain('rights-lost'));
      await eventually(() => expect(told(impaired)).toContain('inbox-lost'));
      await expect(impaired.engine.ping()).rejects.toThrow(/refused what the locks need/);
      await expect(impaired.engine.tryAcquire(uniqueKey())).rejects.toBeInstanceOf(LockStoreError);

      // The keys are back, but not the channels: PUBLISH is refused as before.
      await setUser('~*');
      await sleep(PROOF_MS);
      expect(told(impaired)).not.toContain('rights-back');
      await setUser('allchannels');
      await eventually(() => expect(told(impaired)).toContain('rights-back'));
      await eventually(() => impaired.engine.ping());
      await (await impaired.engine.acquire(uniqueKey())).release();
    },
  );

  concurrentIt('the return of the keys is reported although the inbox is not back', async () => {
    const { user, setUser, openImpaired } = await createUser();
    const impaired = await openImpaired();
    await setUser('resetkeys', '~other:*', '-subscribe');
    await server.admin.call('CLIENT', 'KILL', 'USER', user);
    await eventually(() => expect(told(impaired)).toContain('rights-lost'));
    await setUser('~*');
    await eventually(() => expect(told(impaired)).toContain('rights-back'));
    expect(impaired.store.listensFor('')).toBe(false);
    await setUser('+subscribe');
    await eventually(() => impaired.engine.ping());
  });

  concurrentIt('is also reported when the connections are new', async () => {
    const { user, setUser, openImpaired } = await createUser();
    const impaired = await openImpaired(30_000); // the next check is five seconds away
    await setUser('-publish');
    await server.admin.call('CLIENT', 'KILL', 'USER', user);
    await eventually(() => expect(told(impaired)).toContain('rights-lost'), 3_000);
    await setUser('+publish');
    await eventually(() => expect(told(impaired).at(-1)).toBe('rights-back'), 3_000);
  });
});

describe('a user who is deleted', () => {
  it('is reported, disturbs no other, and its process continues when the user is back', async () => {
    const { user, setUser, openImpaired } = await createUser();
    const [impaired, healthy] = [await openImpaired(), await openHealthy()];
    const key = uniqueKey();
    await impaired.engine.acquire(key);
    await server.admin.call('ACL', 'DELUSER', user);
    await eventually(() => expect(told(impaired)).toContain('store-lost'));
    await expect(impaired.engine.ping()).rejects.toBeInstanceOf(LockStoreError);
    const lock = await healthy.engine.acquire(key, { waitMs: 5 * LEASE_MS });
    await lock.release();
    expect(told(healthy)).toEqual([]);

    await setUser(...all);
    await eventually(() => expect(told(impaired)).toContain('store-back'));
    await eventually(() => impaired.engine.ping());
    await (await impaired.engine.acquire(key)).release();
  });
});

describe('rights that the library can do without', () => {
  it('INFO and SCRIPT LOAD: refused from the start or later, nothing is reported', async () => {
    const { user, setUser, openImpaired } = await createUser();
    await setUser('-info', '-script|load');
    const never = await openLocksOn(
      { port: server.port, username: user, password: 'secret', enableReadyCheck: false },
      { leaseMs: LEASE_MS },
    );
    await setUser('+info', '+script|load');
    const later = await openImpaired();
    await setUser('-info', '-script|load');
    await server.admin.script('FLUSH');
    await sleep(3 * PROOF_MS);
    for (const it of [never, later]) {
      await expect(it.engine.ping()).resolves.toBeGreaterThan(0);
      await (await it.engine.acquire(uniqueKey())).release();
      expect(it.events).toEqual([]);
    }
  });

  it('PING: the inbox keeps working, and its loss is noticed', async () => {
    const { user, setUser, openImpaired } = await createUser();
    const leaseMs = 3_000; // a busy server may be silent for a second
    const impaired = await openImpaired(leaseMs);
    const inboxes = async (): Promise<string[]> =>
      String(await server.admin.call('CLIENT', 'LIST', 'TYPE', 'pubsub')).match(
        /id=\d+(?=.*lock:)/g,
      ) ?? [];
    const before = await inboxes();
    expect(before.length).toBeGreaterThan(0);
    await setUser('-ping');
    await sleep(leaseMs); // three checks
    expect(await inboxes()).toEqual(before);
    expect(impaired.store.listensFor('')).toBe(true);
    await setUser('-subscribe');
    await server.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub', 'USER', user);
    await eventually(() => expect(told(impaired)).toContain('inbox-lost')); // found without PING
  });
});

describe('the clean-up of queues of many keys, by a user who may no longer use them', () => {
  const KEYS = 400;
  const FOR_MS = 4_000;

  /** How many scripts were sent to Redis, whether it has run them or not. */
  async function scripts(): Promise<number> {
    const stats = await server.admin.info('commandstats');
    const [, run = 0, refused = 0] =
      /cmdstat_evalsha:calls=(\d+),.*?rejected_calls=(\d+)/.exec(stats) ?? [];
    return Number(run) + Number(refused);
  }

  it('is tried now and then, delays no other key, and is completed when the rights are back', async () => {
    const { setUser, openImpaired } = await createUser();
    const id = uniqueKey();
    const [impaired, healthy] = [await openImpaired(30_000), await openHealthy(30_000)];
    const keys = Array.from({ length: KEYS }, (_, i) => `${id}:${i}`);
    const spared = `spared:${id}`;
    const controller = new AbortController();
    const wanted = [...keys, spared];
    await Promise.all(wanted.map((key) => healthy.engine.acquire(key)));
    const calls = wanted.map((key) =>
      impaired.engine.acquire(key, { signal: controller.signal, waitMs: 60_000 }),
    );
    const ended = Promise.allSettled(calls);
    const queued = (key: string) => server.admin.zcard(`lock:{${key}}:queue`);
    await eventually(async () => expect(await Promise.all(wanted.map(queued))).not.toContain(0));

    await setUser('resetkeys', '~lock:{spared:*', '~lock:fence');
    const before = await scripts();
    controller.abort();
    await ended;
    await eventually(async () => expect(await queued(spared)).toBe(0));
    await sleep(FOR_MS);
    // Each is tried at once, perhaps first in a script for many. Trying each once a second would take several times as
    // many.
    expect((await scripts()) - before).toBeLessThan(2.5 * KEYS);
    expect(await queued(keys.at(-1)!)).toBe(1);

    await setUser('allkeys');
    await eventually(async () =>
      expect(new Set(await Promise.all(keys.map(queued)))).toEqual(new Set([0])),
    );
  });

  it('does not delay close()', async () => {
    const { setUser, openImpaired } = await createUser();
    const key = uniqueKey();
    const [impaired, healthy] = [await openImpaired(30_000), await openHealthy(30_000)];
    await healthy.engine.acquire(key);
    const controller = new AbortController();
    const call = impaired.engine.acquire(key, { signal: controller.signal }).catch(() => {});
    await eventually(async () => expect(await server.admin.zcard(`lock:{${key}}:queue`)).toBe(1));
    await setUser('resetkeys');
    controller.abort();
    await call;
    await sleep(500);
    const closedAt = performance.now();
    await impaired.engine.close(60_000);
    expect(performance.now() - closedAt).toBeLessThan(10_000);
  });
});
