import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import type { Scenario } from '../scenario.js';
import { type Decorated, murlock, ours } from '../stage/decorated.js';

export const scenario: Scenario<Decorated> = {
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
