import type { LockService } from 'nestjs-locked';
import { OURS } from '../packages.js';
import type { Side } from '../scenario.js';
import type { OurOptions } from './our-locks.js';
import type { RedisServer } from './redis.js';

/** What our side is made of: the lock service of an application, and that of a second one. */
interface Ours {
  readonly locks: LockService;
  readonly server: RedisServer;
  another(): Promise<LockService>;
}

/** Our side, with the lock service. The runs of other sides need not load Nest. @param open what is made of it */
export function ourSide<Tool>(
  options: OurOptions,
  open: (ours: Ours) => Tool | Promise<Tool>,
  settings = inWords(options),
): Side<Tool> {
  return {
    library: OURS,
    settings,
    async open(server) {
      const { ourLocks } = await import('./our-locks.js');
      const locks = await ourLocks(server, options);
      return open({ locks, server, another: () => ourLocks(server) });
    },
  };
}

function inWords(options: OurOptions): string {
  const words = Object.entries(options).map(([name, value]) => `\`${name}: ${value}\``);
  return words.length === 0 ? 'The defaults.' : `${words.join(', ')}.`;
}
