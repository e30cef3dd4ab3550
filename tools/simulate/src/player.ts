/** A thread of a campaign, in which Node is replaced. */
import { parentPort, workerData } from 'node:worker_threads';
import type { Share } from './play-seeds.js';
import { beginWorld } from './world/virtual-node.js';
import { VirtualTime } from './world/virtual-time.js';

beginWorld(new VirtualTime(), 0);
// The library takes some of Node's functions when it is loaded, so it is loaded after they were replaced.
const { playSeeds } = await import('./play-seeds.js');
await playSeeds(workerData as Share, (played) => parentPort?.postMessage(played));
