import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { RedisServer } from 'dev-servers';
import { Redis } from 'ioredis';
import { check } from './checker.js';
import { FAULTS, type Scene } from './faults.js';
import { HistoryFile, monotonicMs } from './history.js';
import { readOptions, type TortureOptions } from './options.js';
import { SeededRandom } from './seeded-random.js';
import { LEASE_MS, WAIT_MS, type WorkerTask } from './task.js';
import { WorkerProcess } from './worker-process.js';

const KEYS = ['a', 'b', 'c'];

/** Processes under random faults for a while; then what they saw is checked. @returns the exit code */
async function torture(options: TortureOptions): Promise<number> {
  const random = new SeededRandom(options.seed);
  const folder = mkdtempSync(join(tmpdir(), 'torture-'));
  const server = await RedisServer.start();
  const admin = new Redis(server.url, { maxRetriesPerRequest: null });
  admin.on('error', () => {}); // the server is taken away on purpose
  const history = new HistoryFile(join(folder, 'history.jsonl'));
  const workers = new Map<string, WorkerProcess>();
  let started = 0;

  const startWorker = async (): Promise<void> => {
    const task: WorkerTask = {
      name: `p${++started}`,
      seed: random.between(0, 2 ** 31),
      redisUrl: server.url,
      history: join(folder, 'history.jsonl'),
      keys: KEYS,
      callers: random.between(1, 4),
      lingerMs: random.pick([0, 0, 100]),
      localHandovers: random.pick([0, 4, 32]),
      breakRule: options.breakRule,
    };
    workers.set(task.name, await WorkerProcess.start(task));
  };

  const scene: Scene = {
    random,
    history,
    server,
    admin,
    keys: KEYS,
    workers: () => [...workers.values()],
    replace: async (worker) => {
      workers.delete(worker.name);
      await startWorker();
    },
  };

  let isClean = false;
  try {
    await Promise.all(Array.from({ length: options.processes }, startWorker));
    const faults: Record<string, number> = {};
    const end = monotonicMs() + options.seconds * 1_000;
    while (monotonicMs() < end) {
      await sleep(random.between(100, 1_500));
      if (options.breakRule) continue; // one cause at a time
      const name = random.pick(Object.keys(FAULTS));
      faults[name] = (faults[name] ?? 0) + 1;
      await FAULTS[name]?.(scene);
    }
    await Promise.all([...workers.values()].map((worker) => worker.finish(WAIT_MS * 2)));
    await sleep(LEASE_MS * 2);

    const verdict = check(history.read(), { longestWaitMs: WAIT_MS });
    const violations = [...verdict.violations, ...(await remains(admin))];
    console.log(`seed ${options.seed}, ${options.seconds} s, ${started} processes`);
    console.log(`faults: ${JSON.stringify(faults)}`);
    console.log(
      `${verdict.attempts} attempts, ${verdict.holds} holds, ${verdict.lost} told of a loss, refused ${JSON.stringify(verdict.refused)}, longest wait ${verdict.longestWaitMs} ms`,
    );
    for (const violation of violations.slice(0, 20)) console.log(`VIOLATION: ${violation}`);
    isClean = violations.length === 0;
    console.log(isClean ? 'clean' : `${violations.length} violations; the history is in ${folder}`);
    return isClean ? 0 : 1;
  } finally {
    admin.disconnect();
    await server.stop();
    if (isClean || options.breakRule) rmSync(folder, { recursive: true, force: true });
  }
}

/** When nobody holds or waits, only what ends by itself may be left: fences, labels, process records. */
async function remains(admin: Redis): Promise<string[]> {
  const keys = await admin.keys('lock:*');
  const left = keys.filter((key) => key.endsWith('}') || key.endsWith(':queue'));
  const endless: string[] = [];
  for (const key of keys) if ((await admin.pttl(key)) === -1) endless.push(key);
  return [
    ...left.map((key) => `${key} is left in Redis`),
    ...endless.map((key) => `${key} has no end`),
  ];
}

process.exitCode = await torture(readOptions(process.argv.slice(2)));
