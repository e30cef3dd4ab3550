import { type DynamicModule, Injectable } from '@nestjs/common';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../scenario.js';
import { decorated, type LockDecorator, ourModule } from './decorated.js';
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

/** Instances that run at the same time, by name. */
type Phase = () => Promise<Record<string, Instance>>;

const CALLERS = 3;
const PHASE_MS = 4_000;
const WORK_MS = 10;

/** The side of the peer is what happens if the new version simply replaces the old one, instance by instance. */
export function migrationScenario(migration: Migration): Scenario<readonly Phase[]> {
  const { library, settings } = migration;

  /** Opens an instance. @param above stands above the lock */
  const instance = async (
    server: RedisServer,
    choose: (locks: Locks) => LockDecorator,
    above: (locks: Locks) => LockDecorator = () => () => {},
  ): Promise<Instance> => {
    const locks = await migration.locks(server);
    const [outer, inner] = [above(locks), choose(locks)];
    @Injectable()
    class StockService {
      @outer
      @inner
      async take(id: string, work: () => Promise<void>): Promise<void> {
        if (id === '42') await work();
      }
    }
    const modules = migration.module === undefined ? [] : [await migration.module(server)];
    const stocks = await decorated(inner, ourModule(server), ...modules).start(StockService);
    return (work) => stocks.take('42', work);
  };

  const openOld = (server: RedisServer): Promise<Instance> => instance(server, (it) => it.old);
  const openNew = (server: RedisServer): Promise<Instance> => instance(server, (it) => it.new);
  const openBoth = (server: RedisServer): Promise<Instance> =>
    instance(
      server,
      (it) => it.old,
      (it) => it.around ?? it.new,
    );

  return {
    title: `Replacing ${library}, instance by instance`,
    workload: `${CALLERS} callers of each instance want one key for ${PHASE_MS / 1_000} s.`,
    limitMs: 60_000,
    areBothNeeded: true,
    async play(phases) {
      const inside = new Inside();
      const words: string[] = [];
      for (const phase of phases) words.push(await run(await phase(), inside));
      return {
        holds: inside.most === 1,
        figure: `${inside.most} inside at once`,
        words: `Holds: ${words.join('; ')}.`,
      };
    },
    peers: [
      {
        library,
        settings,
        open: (server) => [
          async () => ({ old: await openOld(server), new: await openNew(server) }),
        ],
      },
    ],
    ours: {
      settings: '',
      open: (server) => [
        async () => ({ old: await openOld(server), both: await openBoth(server) }),
        async () => ({ both: await openBoth(server), new: await openNew(server) }),
        async () => ({
          'on one key: theirs': await instance(server, (it) => it.onOurKey),
          ours: await instance(server, (it) => it.newOnOneKey ?? it.new),
        }),
      ],
    },
  };
}

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
