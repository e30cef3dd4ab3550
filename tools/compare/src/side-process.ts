/** One run of one side: its outcome is sent to the parent process. `node side-process.js NAME LIBRARY [VARIANT]` */
import { SCENARIOS } from './scenarios/index.js';
import { RedisServer } from './stage/redis.js';

import 'reflect-metadata';

process.once('disconnect', () => process.exit());
const [name = '', library = '', variant] = process.argv.slice(2);
const scenario = await SCENARIOS[name]?.();
const side = scenario?.sides.find((it) => it.library === library && it.variant === variant);
if (scenario === undefined || side === undefined) throw new Error(`No '${library}' in '${name}'`);
const server = await RedisServer.start();
const tool = await side.open(server);
process.send?.('begun');
const outcome = await scenario.play(tool, server);
process.send?.(outcome, () => process.exit(0));
