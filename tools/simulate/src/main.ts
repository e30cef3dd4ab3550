import { optionsFrom, USAGE } from './options.js';
import { beginWorld } from './world/virtual-node.js';
import { VirtualTime } from './world/virtual-time.js';

beginWorld(new VirtualTime(), 0);
// The library takes some of Node's functions when it is loaded, so it is loaded after they were replaced.
const { runCampaign } = await import('./campaign.js');
try {
  const options = optionsFrom(process.argv.slice(2));
  process.exitCode = (await runCampaign(options)) ? 0 : 1;
} catch (error) {
  console.error(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
  process.exitCode = 2;
}
