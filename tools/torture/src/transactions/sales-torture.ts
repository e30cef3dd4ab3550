import { providePostgres, RedisServer } from 'dev-servers';
import { SeededRandom } from 'kit';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Violation } from '../checker/rules.js';
import { Crew } from '../crew.js';
import type { Fault, Setting } from '../faults/fault.js';
import { runFaults } from '../faults/streams.js';
import { killWorker, pauseWorker } from '../faults/worker-faults.js';
import { HistoryFile, monotonicMs } from '../history/history-file.js';
import { judge } from '../judge.js';
import type { SalesOptions } from '../options.js';
import { WorkerProcess } from '../worker/worker-process.js';
import { checkBooks } from './book-checker.js';
import { COMMIT_FAULTS, DatabaseProxy } from './database-proxy.js';
import { SalesDatabase } from './sales-database.js';
import type { SaleEntry, SaleKinds } from './sales-history.js';
import { LEASE_MS, type SalesTask } from './sales-task.js';

import 'reflect-metadata';

/** A shorter phase has no time to wait until a lease ends. */
const LONG_PHASE_MS = 15_000;
const FINISH_MS = 60_000;
/**
 * The database ends a transaction whose client has gone, and lets others have its rows. The client's system gives up
 * later than everybody else must have done so.
 */
const DEAD_MS = { server: LEASE_MS, client: LEASE_MS * 2.5 };
/** The `query_timeout` of some processes. */
const DRIVER_LIMIT_MS = 900;

const PROGRAM = {
  file: fileURLToPath(new URL('./sales-worker.js', import.meta.url)),
  // Branches of a transaction send their statements at the same time, about which pg warns.
  execArgv: ['--no-deprecation'],
};

interface Servers {
  readonly redisUrl: string;
  readonly databaseUrl: string;
  readonly folder: string;
}

/**
 * Runs processes that sell in transactions under locks and under faults, with locks asked for in every possible way.
 * Then it compares what was acknowledged with what was written.
 *
 * @returns the exit code
 */
export function tortureTransactions(options: SalesOptions): Promise<number> {
  return judge(options, async (folder) => {
    const random = new SeededRandom(options.seed);
    const [redis, postgres] = await Promise.all([RedisServer.start(), providePostgres()]);
    const servers = { redisUrl: redis.url, databaseUrl: postgres.url, folder };
    try {
      const unfenced = await phase(options, random, servers, false);
      // The fence would catch some of what is broken on purpose.
      if (options.breaks.length > 0) return unfenced;
      return [...unfenced, ...(await phase(options, random, servers, true))];
    } finally {
      await Promise.all([redis.stop(), postgres.stop()]);
    }
  });
}

async function phase(
  options: SalesOptions,
  random: SeededRandom,
  { redisUrl, databaseUrl, folder }: Servers,
  fence: boolean,
): Promise<readonly Violation[]> {
  const { seed, seconds, processes, callers, breaks: broken, without } = options;
  const name = fence ? 'fenced' : 'unfenced';
  const history = new HistoryFile<SaleKinds>(join(folder, `${name}.jsonl`));
  const database = new SalesDatabase(databaseUrl);
  await database.prepare();
  const proxy = await new DatabaseProxy(databaseUrl, DEAD_MS).open();
  const crew = new Crew((number) => {
    const index = number - 1;
    const isLimited = index % 3 !== 1 && !without.has('driver-limits');
    const task: SalesTask = {
      name: `${name[0]}${index}`,
      seed: random.between(0, 2 ** 31),
      redisUrl,
      databaseUrl: proxy.url,
      history: history.path,
      callers: Math.ceil((callers - (index % processes)) / processes),
      fence,
      opens: index % 2 === 0 ? 'typeorm' : 'cls',
      driverLimitMs: isLimited ? DRIVER_LIMIT_MS : undefined,
      without: [...without],
      broken,
    };
    return WorkerProcess.start(PROGRAM, task, history);
  });
  try {
    await crew.start(processes);
    const phaseMs = (seconds * 1_000) / (broken.length > 0 ? 1 : 2);
    const isLong = phaseMs >= LONG_PHASE_MS;
    const faults = {
      'backend ended': FAULTS.endBackend,
      ...(!without.has('cut-commits') && { 'COMMIT disturbed': FAULTS.disturbCommit }),
      ...(isLong && { 'worker killed': killWorker }),
      // Only the fence and the time-outs protect against a holder that is paused.
      ...(isLong && fence && { 'worker paused': FAULTS.pause }),
    };
    const scene = { random, crew, database, proxy };
    const stream = { faults, pauseMs: [200, 1_000] } as const;
    const counts = await runFaults(scene, [stream], { endAt: monotonicMs() + phaseMs });
    await crew.finish(FINISH_MS);
    const entries = history.read();
    const verdict = checkBooks(entries, await database.books());
    const open = await database.openTransactions(DEAD_MS.server + 1_000);
    const calls = entries.filter(({ kind }) => kind === 'asked').length;
    console.log(`seed ${seed}, ${name}, ${phaseMs} ms, ${crew.started} processes, faults ${JSON.stringify(counts)}: ${calls} calls, ${verdict.acknowledged} acknowledged, ${verdict.unknown} without an answer, ${restarts(entries)} restarts, refused ${JSON.stringify(verdict.refused)}
happened: ${JSON.stringify({ ...verdict.happened, ...proxy.happened })}`);
    const left = open === 0 ? [] : [`${open} transactions are left open`];
    const idle = verdict.acknowledged === 0 ? ['nothing was sold'] : [];
    const others = [...left, ...idle].map((text) => ({ rule: 'books', text }));
    return [...verdict.violations, ...others];
  } finally {
    await crew.stop();
    await proxy.close();
    await database.close();
    history.close();
  }
}

interface SalesScene extends Setting {
  readonly database: SalesDatabase;
  readonly proxy: DatabaseProxy;
}

const FAULTS = {
  endBackend: ({ database }) => database.endOneBackend().catch(() => {}), // it was our own
  disturbCommit: async ({ proxy, random }) => proxy.disturbNextCommit(random.pick(COMMIT_FAULTS)),
  pause: (scene) => pauseWorker(scene, 50, LEASE_MS * 1.5),
} satisfies Record<string, Fault<SalesScene>>;

function restarts(entries: readonly SaleEntry[]): number {
  return entries.reduce((sum, entry) => sum + ('run' in entry ? Math.max(0, entry.run - 1) : 0), 0);
}
