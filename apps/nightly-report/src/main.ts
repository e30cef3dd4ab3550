import { provideRedis } from 'dev-servers';
import { constants } from 'node:os';
import { Fleet } from './fleet/fleet.js';
import { readOptions } from './fleet/options.js';

/** `npm run start:nightly-report`: a Redis and three replicas, until Ctrl-C or for so many ticks. */
const options = readOptions(process.argv.slice(2));
const redis = await provideRedis();
const fleet = new Fleet(redis.url, options);

let isFinishing = false;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => void finish(128 + constants.signals[signal]));
}

try {
  await fleet.start();
  console.log('Three replicas wait for their ticks, one every three seconds. Ctrl-C stops them.');
  await fleet.enough();
  await finish(0);
} catch (error) {
  if (!isFinishing) console.error(error instanceof Error ? error.message : error);
  await finish(1);
}

async function finish(exitCode: number): Promise<void> {
  if (isFinishing) return;
  isFinishing = true;
  await fleet.stop();
  await redis.stop();
  for (const tick of fleet.tally.ticks) {
    const { begun, done } = fleet.tally.of(tick);
    console.log(`${tick}  begun by ${list(begun)}, finished by ${list(done)}`);
  }
  process.exit(exitCode);
}

function list(names: readonly string[]): string {
  return names.length === 0 ? 'nobody' : names.join(' and ');
}
