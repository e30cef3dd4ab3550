/** A process that holds a lock of three servers. `node holder-process.js LIBRARY ASKS_SERVERS CHECKS_LAST PORT…` */
import { once } from 'node:events';
import { openChecked } from './stage/checked-holds.js';
import type { QuorumLibrary } from './stage/three-servers.js';

import 'reflect-metadata';

export type FromHolder =
  | { readonly say: 'ready' | 'read' | 'gave up' }
  | { readonly say: 'write'; readonly value: number; readonly fence?: number };

/** The value that was read, and then that it goes on. */
export type ToHolder = number | 'go on';

process.once('disconnect', () => process.exit());
const [library, asksServers, checksLast, ...ports] = process.argv.slice(2);

const say = (message: FromHolder): void => void process.send?.(message);
const heard = async (): Promise<ToHolder> => (await once(process, 'message'))[0] as ToHolder;

const hold = await openChecked(library as QuorumLibrary, ports.map(Number), asksServers === 'true');
say({ say: 'ready' });
await heard();
await hold(async ({ isLost, fence }) => {
  say({ say: 'read' });
  const value = Number(await heard());
  if (checksLast === 'false' && (await isLost())) return say({ say: 'gave up' });
  await heard(); // here it is paused
  if (checksLast === 'true' && (await isLost())) return say({ say: 'gave up' });
  say({ say: 'write', value: value + 1, ...(fence !== undefined && { fence }) });
}).catch(() => {}); // what its release says comes too late
