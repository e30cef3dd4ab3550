/** One side of one scenario: its outcome is sent to the parent process. `node side-process.js NAME LIBRARY` */
import { OURS } from './packages.js';
import { SCENARIOS } from './scenarios/index.js';
import { RedisServer } from './stage/redis.js';

import 'reflect-metadata';

process.once('disconnect', () => process.exit());
const [name = '', library = ''] = process.argv.slice(2);
const scenario = SCENARIOS[name];
const peer = scenario?.peers.find((side) => side.library === library);
const side = library === OURS ? scenario?.ours : peer;
if (scenario === undefined || side === undefined) throw new Error(`No '${library}' in '${name}'`);
const server = await RedisServer.start();
const outcome = await scenario.play(await side.open(server), server);
process.send?.(outcome, () => process.exit(0));
