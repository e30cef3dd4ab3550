import { type DynamicModule, Injectable } from '@nestjs/common';
import { setTimeout as sleep } from 'node:timers/promises';
import { OURS } from '../packages.js';
import { played, type Scenario } from '../scenario.js';
import { type LockDecorator, ourModule, startApplication } from './decorated.js';
import { Inside } from './inside.js';
import type { RedisServer } from './redis.js';

/** How to get from another library to this one while instances of both versions run. */
export interface Migration {
  readonly library: string;
  readonly settings: string;
  /** The module of the library, if it has one. */
  module?(server: RedisServer): Promise<DynamicModule>;
  /** Its locks and ours, opened for one instance. */
  locks(server: RedisServer): Promise<Locks>;
}

interface Locks {
  /** The lock as it was. */
  readonly old: LockDecorator;
  /** The lock as it will be. */
  readonly new: LockDecorator;
  /** Ours, as it is put around theirs in the release in between. @default new */
  readonly around?: LockDecorator;
  /** Theirs, set so that it uses the key of ours in Redis. */
  readonly onOurKey: LockDecorator;
  /** Ours, if it has to be set as well for both to use one key. @default new */
  readonly newOnOneKey?: LockDecorator;
}

/** One running instance of an application. It does the work under its lock, or fails if that is busy for too long. */
type Instance = (work: () => Promise<void>) => Promise<unknown>;

type Version = 'old' | 'both' | 'new' | 'on one key: theirs' | 'ours';

/** What stands above the method in each version of the application. */
const DECORATORS: Record<Version, (locks: Locks) => [outer: LockDecorator, inner?: LockDecorator]> =
  {
    old: (locks) => [locks.old],
    both: (locks) => [locks.around ?? locks.new, locks.old],
    new: (locks) => [locks.new],
    'on one key: theirs': (locks) => [locks.onOurKey],
    ours: (locks) => [locks.newOnOneKey ?? locks.new],
  };

/** Two versions whose instances run at the same time. */
type Phase = readonly [Version, Version];

const CALLERS = 3;
const PHASE_MS = 4_000;
const WORK_MS = 10;

/** Two libraries lock different keys. Nothing is compared: one side shows what the release in between is for. */
export function migrationScenario(migration: Migration): Scenario<readonly Phase[]> {
  const { library, settings } = migration;

  const open = async (version: Version, server: RedisServer): Promise<Instance> => {
    const [outer, inner = NO_LOCK] = DECORATORS[version](await migration.locks(server));
    @Injectable()
    class StockService {
      @outer
      @inner
      async take(id: string, work: () => Promise<void>): Promise<void> {
        if (id === '42') await work();
      }
    }
    const module = await migration.module?.(server);
    const imports = [ourModule(server), ...(module === undefined ? [] : [module])];
    const app = await startApplication({ imports, providers: [StockService] });
    return (work) => app.get(StockService).take('42', work);
  };

  return {
    title: `Replacing ${library}, instance by instance`,
    workload: `${CALLERS} callers of each instance want one key for ${PHASE_MS / 1_000} s.`,
    limitMs: 60_000,
    repeats: 1,
    areBothNeeded: true,
    async play(phases, server) {
      const inside = new Inside();
      const words: string[] = [];
      for (const [first, second] of phases) {
        const instances = {
          [first]: await open(first, server),
          [second]: await open(second, server),
        };
        words.push(await run(instances, inside));
      }
      return {
        holds: inside.most === 1,
        figure: `${inside.most} inside at once`,
        words: `Holds: ${words.join('; ')}.`,
      };
    },
    sides: [
      played(
        '✗ 2 inside at once',
        { library: OURS, settings: settings, open: () => [['old', 'new']] },
        'without the release in between',
      ),
      played('✓ 1 inside at once', {
        library: OURS,
        settings,
        open: () => [
          ['old', 'both'],
          ['both', 'new'],
          ['on one key: theirs', 'ours'],
        ],
      }),
    ],
  };
}

const NO_LOCK: LockDecorator = () => {};

/** @returns how often which of them got its turn. @throws Error if one never did: then nothing was proven */
async function run(instances: Record<string, Instance>, inside: Inside): Promise<string> {
  const end = performance.now() + PHASE_MS;
  const turns = Object.entries(instances).map(async ([name, instance]) => {
    let entered = 0;
    const call = async (): Promise<void> => {
      while (performance.now() < end) {
        await instance(() => {
          entered += 1;
          return inside.work(WORK_MS);
        }).catch(() => {}); // busy: it comes back
        await sleep(Math.random() * 200);
      }
    };
    await Promise.all(Array.from({ length: CALLERS }, call));
    if (entered === 0) throw new Error(`'${name}' never got its turn`);
    return `${name} ${entered}`;
  });
  return (await Promise.all(turns)).join(', ');
}
