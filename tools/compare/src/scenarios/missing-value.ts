import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../scenario.js';
import { type Decorated, murlock, ours } from '../stage/decorated.js';
import { connect } from '../stage/redis.js';

interface User {
  readonly name?: string;
  readonly address?: { readonly id?: string };
}

export const scenario: Scenario<Decorated> = {
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
