import { cleanUpAtExit, providePostgres, RedisServer } from 'dev-servers';
import { SeededRandom } from 'kit';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type BookVerdict, checkBooks } from './book-checker.js';
import { COMMIT_FAULTS, type CommitFault, DatabaseProxy } from './database-proxy.js';
import type { SaleFeature } from './sale-plan.js';
import { SalesDatabase } from './sales-database.js';
import type { SaleEntry } from './sales-history.js';
import type { SalesOptions } from './sales-options.js';
import { SalesProcess } from './sales-process.js';
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
export async function tortureTransactions(options: SalesOptions): Promise<number> {
  const isBroken = options.broken.length > 0;
  const random = new SeededRandom(options.seed);
  const folder = mkdtempSync(join(tmpdir(), 'torture-'));
  const keepFolder = cleanUpAtExit({ kind: 'folder', path: folder });
  const [redis, postgres] = await Promise.all([RedisServer.start(), providePostgres()]);
  const servers: Servers = { redisUrl: redis.url, databaseUrl: postgres.url, folder };
  let isClean = false;
  try {
    const verdicts = [];
    // The fence would catch some of what is broken on purpose.
    for (const fence of isBroken ? [false] : [false, true]) {
      verdicts.push(await phase(options, random, servers, fence));
    }
    const violations = verdicts.flatMap((verdict) => verdict.violations);
    for (const violation of violations.slice(0, 50))
      console.log(`VIOLATION of books: ${violation}`);
    isClean = violations.length === 0;
    console.log(
      isClean ? 'clean' : `${violations.length} violations; the histories are in ${folder}`,
    );
    return isClean ? 0 : 1;
  } finally {
    await Promise.all([redis.stop(), postgres.stop()]);
    if (isClean || isBroken) rmSync(folder, { recursive: true, force: true });
    keepFolder();
  }
}

async function phase(
  { seed, seconds, processes, callers, broken, without }: SalesOptions,
  random: SeededRandom,
  { redisUrl, databaseUrl, folder }: Servers,
  fence: boolean,
): Promise<BookVerdict> {
  const name = fence ? 'fenced' : 'unfenced';
  const history = join(folder, `${name}.jsonl`);
  writeFileSync(history, '');
  const database = new SalesDatabase(databaseUrl);
  await database.prepare();
  const proxy = await new DatabaseProxy(databaseUrl, DEAD_MS).open();
  const workers = new Map<string, SalesProcess>();
  let started = 0;
  const start = async (): Promise<void> => {
    const index = started++;
    const task: SalesTask = {
      name: `${name[0]}${index}`,
      seed: random.between(0, 2 ** 31),
      redisUrl,
      databaseUrl: proxy.url,
      history,
      callers: Math.ceil((callers - (index % processes)) / processes),
      fence,
      opens: index % 2 === 0 ? 'typeorm' : 'cls',
      driverLimitMs: index % 3 !== 1 && !without.has('driver-limits') ? DRIVER_LIMIT_MS : undefined,
      without: [...without],
      broken,
    };
    workers.set(task.name, await SalesProcess.start(task));
  };
  try {
    await Promise.all(Array.from({ length: processes }, start));
    const phaseMs = (seconds * 1_000) / (broken.length > 0 ? 1 : 2);
    const faults = await disturb(phaseMs, random, {
      fence,
      database,
      proxy,
      workers,
      start,
      without,
    });
    const ends = await Promise.all([...workers.values()].map((worker) => worker.finish(FINISH_MS)));
    workers.clear();
    const entries = readHistory(history);
    const verdict = checkBooks(entries, await database.books());
    const open = await database.openTransactions(DEAD_MS.server + 1_000);
    console.log(
      `seed ${seed}, ${name}, ${phaseMs} ms, ${started} processes, faults ${JSON.stringify(faults)}: ` +
        `${entries.filter(({ kind }) => kind === 'asked').length} calls, ${verdict.acknowledged} acknowledged, ` +
        `${verdict.unknown} without an answer, ${restarts(entries)} restarts, refused ${JSON.stringify(verdict.refused)}\n` +
        `happened: ${JSON.stringify({ ...verdict.happened, ...proxy.happened })}`,
    );
    const left = open === 0 ? [] : [`${open} transactions are left open`];
    const idle = verdict.acknowledged === 0 ? ['nothing was sold'] : [];
    return { ...verdict, violations: [...verdict.violations, ...left, ...idle, ...ends.flat()] };
  } finally {
    await Promise.all([...workers.values()].map((worker) => worker.kill()));
    await proxy.close();
    await database.close();
  }
}

type Kind = 'backend ended' | 'worker killed' | 'worker paused' | CommitFault;

interface Scene {
  readonly fence: boolean;
  readonly database: SalesDatabase;
  readonly proxy: DatabaseProxy;
  readonly workers: Map<string, SalesProcess>;
  readonly start: () => Promise<void>;
  readonly without: ReadonlySet<SaleFeature>;
}

/** @returns how often each thing happened */
async function disturb(
  phaseMs: number,
  random: SeededRandom,
  { fence, database, proxy, workers, start, without }: Scene,
): Promise<Record<string, number>> {
  const faults: Record<string, number> = {};
  const end = performance.now() + phaseMs;
  const isLong = phaseMs >= LONG_PHASE_MS;
  // Only the fence and the time-outs protect against a holder that is paused.
  const kinds = (): readonly Kind[] => [
    'backend ended',
    ...(without.has('cut-commits') ? [] : [random.pick(COMMIT_FAULTS)]),
    ...(isLong ? (['worker killed'] as const) : []),
    ...(isLong && fence ? (['worker paused'] as const) : []),
  ];
  for (;;) {
    const leftMs = end - performance.now();
    await sleep(Math.min(Math.max(0, leftMs), random.between(200, 1_000)));
    if (performance.now() >= end) return faults;
    const kind = random.pick(kinds());
    faults[kind] = (faults[kind] ?? 0) + 1;
    const victim = random.pick([...workers.values()]);
    switch (kind) {
      case 'backend ended':
        await database.endOneBackend().catch(() => {}); // it was our own
        break;
      case 'COMMIT lost':
      case 'answer to COMMIT lost':
      case 'COMMIT comes late':
      case 'COMMIT never arrives':
      case 'answer to COMMIT never comes':
        proxy.disturbNextCommit(kind);
        break;
      case 'worker killed':
        workers.delete(victim.name);
        await victim.kill();
        await start();
        break;
      case 'worker paused':
        victim.pause();
        await sleep(random.between(50, LEASE_MS * 1.5));
        victim.resume();
    }
  }
}

function restarts(entries: readonly SaleEntry[]): number {
  return entries.reduce((sum, entry) => sum + ('run' in entry ? Math.max(0, entry.run - 1) : 0), 0);
}

function readHistory(file: string): SaleEntry[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as SaleEntry);
}
