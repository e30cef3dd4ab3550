import { Injectable } from '@nestjs/common';
import { Locked, RedisLockModule } from 'nestjs-locked';
import type { Outcome, Scenario } from '../scenario.js';
import { startApplication } from '../stage/application.js';
import { murlockModule, SETTINGS } from '../stage/peer-modules.js';
import { RedisServer } from '../stage/redis.js';

/** When it is noticed that the key names a parameter that is not there. */
async function whenNoticed(
  start: () => Promise<{ take(id: string): Promise<unknown> }>,
): Promise<Outcome> {
  let service;
  try {
    service = await start();
  } catch (error) {
    return { holds: true, figure: 'at start', words: `"${(error as Error).message}"` };
  }
  const error = (await service.take('42').catch((reason: unknown) => reason)) as Error;
  const isNoticed = error instanceof Error;
  return {
    holds: false,
    figure: isNoticed ? 'at the first call' : 'never',
    words: isNoticed ? `"${error.message}"` : 'The method ran.',
  };
}

export const scenario: Scenario = {
  title: 'The key names a parameter that was renamed',
  workload: 'The key is built from `userId`, but the parameter is now called `id`.',
  peers: [
    {
      library: 'murlock',
      settings: SETTINGS.murlock,
      run: () =>
        whenNoticed(async () => {
          const { MurLock } = await import('murlock');
          @Injectable()
          class UserService {
            @MurLock(5000, 'userId')
            async take(id: string): Promise<string> {
              return id;
            }
          }
          const app = await startApplication({
            imports: [await murlockModule(await RedisServer.start())],
            providers: [UserService],
          });
          return app.get(UserService);
        }),
    },
  ],
  ours: {
    settings: 'The defaults.',
    run: () =>
      whenNoticed(async () => {
        const { url } = await RedisServer.start();
        @Injectable()
        class UserService {
          @Locked('user:<userId>')
          async take(id: string): Promise<string> {
            return id;
          }
        }
        const app = await startApplication({
          imports: [RedisLockModule.forRoot({ connection: url })],
          providers: [UserService],
        });
        return app.get(UserService);
      }),
  },
};
