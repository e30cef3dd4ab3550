import { runCampaign } from './campaign.js';
import { optionsFrom, USAGE } from './options.js';

try {
  const options = optionsFrom(process.argv.slice(2));
  process.exitCode = (await runCampaign(options)) ? 0 : 1;
} catch (error) {
  console.error(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
  process.exitCode = 2;
}
