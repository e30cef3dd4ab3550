import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../scenario.js';
import { openRedlock } from '../stage/clients.js';
import {
  around,
  type Decorated,
  decorated,
  murlock,
  nestRedlock,
  ours,
} from '../stage/decorated.js';
import { Inside } from '../stage/inside.js';
import { connect } from '../stage/redis.js';

interface User {
  readonly name?: string;
  readonly address?: { readonly id?: string };
}

export const missingValue: Scenario<Decorated> = {
  title: 'The value for the key is missing',
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
  peers: [
    murlock(({ MurLock }) => MurLock(5000, 'user.address.id'), {
      note: 'It reads two parts of a path: the key is the same if the id exists.',
    }),
  ],
  ours: ours(Locked('user:<user.address.id>')),
};

export const collidingKeys: Scenario<Decorated> = {
  title: 'Different values, the same key',
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
  peers: [
    murlock(({ MurLock }) => MurLock(5000, 'shop', 'sku'), {
      note: 'With `encodeKeyParts: true` on its main branch, in no release yet, the keys differ.',
    }),
  ],
  ours: ours(Locked('stock:<shop>:<sku>')),
};

export const misspeltParameter: Scenario<Decorated> = {
  title: 'The key names a parameter that was renamed',
  workload: 'The key is built from `userId`, but the parameter is now called `id`.',
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
  peers: [murlock(({ MurLock }) => MurLock(5000, 'userId'))],
  ours: ours(Locked('user:<userId>')),
};

export const noKeys: Scenario<Decorated> = {
  title: 'An empty list of keys',
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
  peers: [
    {
      library: 'redlock',
      settings: '`acquire([])` with the defaults.',
      async open(server) {
        const redlock = await openRedlock('redlock', [await connect(server)]);
        const hold = async (work: () => Promise<void>, ids: string[]): Promise<void> => {
          const held = await redlock.acquire(ids, 5_000);
          await work();
          await held.release();
        };
        return decorated(around(hold));
      },
    },
    nestRedlock(({ Redlock }) =>
      Redlock((_: unknown, ids: string[]) => ids.map((id) => `stock:${id}`)),
    ),
  ],
  ours: ours(Locked('stock:<ids[]>')),
};
