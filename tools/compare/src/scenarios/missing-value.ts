import { Injectable } from '@nestjs/common';
import { Locked, RedisLockModule } from 'nestjs-locked';
import type { Outcome, Scenario } from '../scenario.js';
import { startApplication } from '../stage/application.js';
import { Inside } from '../stage/inside.js';
import { murlockModule, SETTINGS } from '../stage/peer-modules.js';
import { connect, RedisServer } from '../stage/redis.js';

interface User {
  readonly name?: string;
  readonly address?: { readonly id?: string };
}

const inside = new Inside();

/** What is locked when the value that the key needs is not there. */
async function withoutValue(
  server: RedisServer,
  take: (user: User) => Promise<void>,
): Promise<Outcome> {
  const redis = await connect(server);
  const call = take({ name: 'Ann', address: {} }).catch((error: Error) => error);
  await new Promise((resolve) => setTimeout(resolve, 100));
  const [key] = await redis.keys('*');
  const error = await call;
  if (error !== undefined) return { holds: true, figure: 'refused', words: `"${error.message}"` };
  return {
    holds: false,
    figure: `locked: ${key}`,
    words: 'All users share this lock, without a message.',
  };
}

export const scenario: Scenario = {
  title: 'The value for the key is missing',
  workload: 'The key is built from `user.address.id`, which this user does not have.',
  peers: [
    {
      library: 'murlock',
      settings: SETTINGS.murlock,
      note: 'It reads two parts of a path: the key is the same if the id exists.',
      async run() {
        const { MurLock } = await import('murlock');
        const server = await RedisServer.start();
        @Injectable()
        class UserService {
          @MurLock(5000, 'user.address.id')
          async update(user: User): Promise<void> {
            if (user.name !== undefined) await inside.work(300);
          }
        }
        const app = await startApplication({
          imports: [await murlockModule(server)],
          providers: [UserService],
        });
        return withoutValue(server, (user) => app.get(UserService).update(user));
      },
    },
  ],
  ours: {
    settings: 'The defaults.',
    async run() {
      const server = await RedisServer.start();
      @Injectable()
      class UserService {
        @Locked('user:<user.address.id>')
        async update(user: User): Promise<void> {
          if (user.name !== undefined) await inside.work(300);
        }
      }
      const app = await startApplication({
        imports: [RedisLockModule.forRoot({ connection: server.url })],
        providers: [UserService],
      });
      return withoutValue(server, (user) => app.get(UserService).update(user));
    },
  },
};
