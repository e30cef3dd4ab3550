import { constants } from 'node:os';
import { Cleanup } from './cleanup.js';
import { runDemo } from './demo.js';
import { readOptions } from './options.js';
import { Progress } from './progress.js';

const cleanup = new Cleanup();

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    if (cleanup.hasBegun) return;
    console.log(`\n${signal}: stopping everything that was started`);
    void finish(128 + constants.signals[signal]);
  });
}

try {
  const isExact = await runDemo(readOptions(process.argv.slice(2)), cleanup, new Progress());
  await finish(isExact ? 0 : 1);
} catch (error) {
  // After a signal, everything that was under way fails, so there is nothing to report.
  if (!cleanup.hasBegun) {
    console.error(
      `The demo could not be run: ${error instanceof Error ? error.message : String(error)}`,
    );
    await finish(1);
  }
}

async function finish(exitCode: number): Promise<void> {
  await cleanup.run();
  process.exit(exitCode);
}
