/** One side of one scenario: its outcome is sent to the parent process. `node side-process.js NAME LIBRARY` */
import { loadScenario } from './load-scenarios.js';
import { OURS } from './run-side.js';

import 'reflect-metadata';

process.once('disconnect', () => process.exit());
const [name = '', library = ''] = process.argv.slice(2);
const { peers, ours } = await loadScenario(name);
const side = library === OURS ? ours : peers.find((peer) => peer.library === library);
if (side === undefined) throw new Error(`'${name}' has no side '${library}'`);
const outcome = await side.run();
process.send?.(outcome, () => process.exit(0));
