import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { played, type Scenario, type Side } from '../scenario.js';
import { openRedlock, type RedlockName } from '../stage/clients.js';
import { around, type Decorated, decorated, ours } from '../stage/decorated.js';
import { Inside } from '../stage/inside.js';
import {
  murlock,
  nestjsRedis,
  nestRedlock,
  simpleRedisLock,
  universal,
  withLockService,
} from '../stage/nest-peers.js';
import { connect } from '../stage/redis.js';

interface User {
  readonly name?: string;
  readonly address?: { readonly id?: string };
}

/** The keys of libraries that take a function, as their READMEs write it. */
const idOf = ({ address }: User): string => `user:${address?.id}`;
const inShop = (shop: string, sku: string): string => `stock:${shop}:${sku}`;
const OWN_TEXT = { settings: 'A function that returns a template literal.' } as const;

export const missingValue: Scenario<Decorated> = {
  title: 'The value for the key is missing',
  repeats: 1,
  workload: 'The key is built from `user.address.id`, which this user does not have.',
  async play({ lock, start }, server) {
    @Injectable()
    class UserService {
      @lock
      async update(user: User): Promise<void> {
        if (user.name !== undefined) await sleep(300);
      }
    }
    const users = await start(UserService);
    const redis = await connect(server);
    const call = users.update({ name: 'Ann', address: {} }).catch((error: Error) => error);
    await sleep(100);
    const [key] = await redis.keys('*');
    const error = await call;
    return error === undefined
      ? {
          holds: false,
          figure: `locked: ${key}`,
          words: 'All users share this lock, without a message.',
        }
      : { holds: true, figure: 'refused', words: `"${error.message}"` };
  },
  sides: [
    played(
      '✗ locked: UserService:update:[object Object]',
      murlock(({ MurLock }) => MurLock(5000, 'user.address.id'), {
        note: 'It reads two parts of a path: the key is the same if the id exists.',
      }),
    ),
    played(
      '✗ locked: user:undefined',
      nestRedlock(({ Redlock }) => Redlock((_: unknown, user: User) => idOf(user)), OWN_TEXT),
    ),
    played(
      '✗ locked: user:undefined',
      universal(({ Redlock }) => Redlock({ key: idOf }), OWN_TEXT),
    ),
    played(
      '✗ locked: lock:user:undefined',
      simpleRedisLock(
        (library) =>
          withLockService(
            library.RedisLockService as never,
            library.RedisLock((_: unknown, user: User) => idOf(user)) as never,
          ),
        OWN_TEXT,
      ),
    ),
    played('✓ refused', ours(Locked('user:<user.address.id>'))),
    played(
      '✓ refused',
      ours(Locked<(user: User) => Promise<void>>(idOf), OWN_TEXT.settings),
      'a function',
    ),
  ],
};

export const collidingKeys: Scenario<Decorated> = {
  title: 'Different values, the same key',
  repeats: 1,
  workload: 'Two unrelated calls, for ("a:b", "c") and for ("a", "b:c").',
  async play({ lock, start }, server) {
    const redis = await connect(server);
    const held: string[] = [];
    @Injectable()
    class StockService {
      @lock
      async take(shop: string, sku: string): Promise<void> {
        if (shop !== sku) held.push(...(await redis.keys('*[bc]*')));
      }
    }
    const stocks = await start(StockService);
    await stocks.take('a:b', 'c');
    await stocks.take('a', 'b:c');
    const keys = held.filter((key) => /b.*c\}?$/.test(key) && !key.includes(':process:'));
    const distinct = [...new Set(keys)];
    return {
      holds: distinct.length === 2,
      figure: distinct.length === 2 ? 'two locks' : 'one lock',
      words: `Keys: ${distinct.map((key) => `"${key}"`).join(' and ')}.`,
    };
  },
  sides: [
    played(
      '✗ one lock',
      murlock(({ MurLock }) => MurLock(5000, 'shop', 'sku'), {
        note: 'With `encodeKeyParts: true` on its main branch, in no release yet, the keys differ.',
      }),
    ),
    played(
      '✗ one lock',
      nestRedlock(
        ({ Redlock }) => Redlock((_: unknown, shop: string, sku: string) => inShop(shop, sku)),
        OWN_TEXT,
      ),
    ),
    played(
      '✗ one lock',
      universal(({ Redlock }) => Redlock({ key: inShop }), OWN_TEXT),
    ),
    played(
      '✗ one lock',
      simpleRedisLock(
        (library) =>
          withLockService(
            library.RedisLockService as never,
            library.RedisLock((_: unknown, shop: string, sku: string) =>
              inShop(shop, sku),
            ) as never,
          ),
        OWN_TEXT,
      ),
    ),
    played('✓ two locks', ours(Locked('stock:<shop>:<sku>'))),
    played(
      '✗ one lock',
      ours(Locked<(shop: string, sku: string) => Promise<void>>(inShop), OWN_TEXT.settings),
      'a function',
    ),
  ],
};

export const misspeltParameter: Scenario<Decorated> = {
  title: 'The key names a parameter that was renamed',
  repeats: 1,
  workload:
    'The key is built from `userId`, but the parameter is now called `id`. Where the key is a function, the compiler notices.',
  async play({ lock, start }) {
    const startUsers = (): Promise<{ take(id: string): Promise<string> }> => {
      @Injectable()
      class UserService {
        @lock
        async take(id: string): Promise<string> {
          return id;
        }
      }
      return start(UserService);
    };
    let users;
    try {
      users = await startUsers();
    } catch (error) {
      return { holds: true, figure: 'at start', words: `"${(error as Error).message}"` };
    }
    const error = (await users.take('42').catch((reason: unknown) => reason)) as Error;
    return error instanceof Error
      ? { holds: false, figure: 'at the first call', words: `"${error.message}"` }
      : { holds: false, figure: 'never', words: 'The method ran.' };
  },
  sides: [
    played(
      '✗ at the first call',
      murlock(({ MurLock }) => MurLock(5000, 'userId')),
    ),
    played('✓ at start', ours(Locked('user:<userId>'))),
  ],
};

const UNLOCKED = '✗ 2 inside at once';

function acquiring(library: RedlockName): Side<Decorated> {
  return {
    library,
    settings: '`acquire([])` with the defaults.',
    async open(server) {
      const redlock = await openRedlock(library, [await connect(server)]);
      const hold = async (work: () => Promise<void>, ids: string[]): Promise<void> => {
        const held = await redlock.acquire(ids, 5_000);
        await work();
        await held.release();
      };
      return decorated(around(hold));
    },
  };
}

export const noKeys: Scenario<Decorated> = {
  title: 'An empty list of keys',
  repeats: 1,
  workload: 'Two concurrent calls with an empty list of keys.',
  async play({ lock, start }) {
    const inside = new Inside();
    @Injectable()
    class StockService {
      @lock
      async take(ids: string[]): Promise<void> {
        await inside.work(100 + ids.length);
      }
    }
    const stocks = await start(StockService);
    const calls = await Promise.allSettled([stocks.take([]), stocks.take([])]);
    const refused = calls.find((call) => call.status === 'rejected');
    return {
      holds: inside.entered === 0,
      figure: inside.entered === 0 ? 'refused' : `${inside.most} inside at once`,
      words: refused ? `"${(refused.reason as Error).message}"` : 'The work ran without any lock.',
    };
  },
  sides: [
    played(UNLOCKED, acquiring('redlock')),
    played(UNLOCKED, acquiring('@sesamecare-oss/redlock')),
    played(UNLOCKED, {
      library: 'redlock4',
      settings: '`lock([])` with the defaults.',
      async open(server) {
        const { default: Redlock } = await import('redlock4');
        const redlock = new Redlock([await connect(server)]);
        const hold = async (work: () => Promise<void>, ids: string[]): Promise<void> => {
          const held = await redlock.lock(ids, 5_000);
          await work();
          await held.unlock();
        };
        return decorated(around(hold));
      },
    }),
    played('✓ refused', {
      library: 'redlock-universal',
      settings: '`acquireBatch([])` of a `LockManager` with the defaults.',
      async open(server) {
        const { IoredisAdapter, LockManager } = await import('redlock-universal');
        const nodes = [new IoredisAdapter(await connect(server))];
        const manager = new LockManager({ nodes, defaultTTL: 30_000 });
        const hold = async (work: () => Promise<void>, ids: string[]): Promise<void> => {
          const handles = await manager.acquireBatch(ids);
          await work();
          await manager.releaseBatch(handles);
        };
        return decorated(around(hold));
      },
    }),
    played(
      UNLOCKED,
      nestRedlock(({ Redlock }) =>
        Redlock((_: unknown, ids: string[]) => ids.map((id) => `stock:${id}`)),
      ),
    ),
    played(
      '✓ refused',
      nestjsRedis(({ Redlock }) => Redlock([], 5000), { settings: '`@Redlock([], 5000)`.' }),
    ),
    played('✓ refused', ours(Locked('stock:<ids[]>'))),
  ],
};
