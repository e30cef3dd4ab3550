import { LockService, type RedisLockModuleOptions } from 'nestjs-locked';
import type { Side } from '../scenario.js';
import { ourModule, startApplication } from './decorated.js';
import type { RedisServer } from './redis.js';

type Options = Omit<RedisLockModuleOptions, 'connection'>;

/** The lock service of an application of its own. */
export async function ourLocks(server: RedisServer, options: Options = {}): Promise<LockService> {
  const app = await startApplication({ imports: [ourModule(server, options)] });
  return app.get(LockService);
}

/** Our side, with the lock service. @param open what is made of it */
export function ourSide<Tool>(
  options: Options,
  open: (locks: LockService, server: RedisServer) => Tool | Promise<Tool>,
  settings = inWords(options),
): Side<Tool> {
  return { settings, open: async (server) => open(await ourLocks(server, options), server) };
}

function inWords(options: Options): string {
  const words = Object.entries(options).map(([name, value]) => `\`${name}: ${value}\``);
  return words.length === 0 ? 'The defaults.' : `${words.join(', ')}.`;
}
