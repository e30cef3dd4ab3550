import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { SimulateOptions } from './options.js';
import type { Played, Share } from './play-seeds.js';

const HOUR_MS = 3_600_000;

/** Plays histories on all threads until the first finding. @returns whether there was none */
export async function runCampaign(options: SimulateOptions): Promise<boolean> {
  const {
    seed,
    histories,
    hours = Infinity,
    threads,
    stage,
    breaks,
    print,
    isWhole,
    judges,
  } = options;
  const startedAt = performance.now();
  let count = 0;
  let virtualMs = 0;
  let hasFound = false;
  const shares = Array.from({ length: Math.min(threads, histories) }, (_, i): Share => ({
    firstSeed: seed + i,
    step: threads,
    histories: Math.ceil((histories - i) / threads),
    forMs: hours * HOUR_MS,
    stage,
    breaks,
    print,
    isWhole,
    judges,
  }));
  const players = shares.map(
    (workerData) => new Worker(new URL('./player.js', import.meta.url), { workerData }),
  );
  const stop = (): void => {
    for (const player of players) void player.terminate();
  };
  const hear = (played: Played): void => {
    if (hasFound) return;
    if (played.kind === 'found') {
      hasFound = true;
      console.log(played.text);
      stop();
    } else {
      count += 1;
      virtualMs += played.virtualMs;
      for (const event of played.events) console.log(event);
    }
  };
  try {
    await Promise.all(players.map((player) => once(player.on('message', hear), 'exit')));
  } finally {
    stop();
  }
  if (!hasFound && !print) {
    const seconds = Math.round((performance.now() - startedAt) / 1_000);
    const virtual = Math.round(virtualMs / 1_000);
    console.log(
      `${count} histories from seed ${seed} on: nothing found (${virtual} s of virtual time in ${seconds} s)`,
    );
  }
  return !hasFound;
}
