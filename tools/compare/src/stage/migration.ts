import type { DynamicModule, Type } from '@nestjs/common';
import { RedisLockModule } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Outcome, Scenario } from '../scenario.js';
import { startApplication } from './application.js';
import { Inside } from './inside.js';
import { RedisServer } from './redis.js';

/** One running instance of an application. It does the work under its lock, or fails if that is busy for too long. */
export type Instance = (work: () => Promise<void>) => Promise<unknown>;

/** A service whose method does the work under a lock. */
interface LockedService {
  take(id: string, work: () => Promise<void>): Promise<void>;
}

/** An instance with the modules of both libraries, so that the service may have the decorators of either. */
export async function instanceOf(
  service: Type<LockedService>,
  server: RedisServer,
  peer: DynamicModule,
): Promise<Instance> {
  const app = await startApplication({
    imports: [RedisLockModule.forRoot({ connection: server.url }), peer],
    providers: [service],
  });
  return (work) => app.get(service).take('42', work);
}

/** How to get from another library to this one while instances of both versions run. */
export interface Migration {
  readonly library: string;
  readonly settings: string;
  /** The lock as it was. */
  old(server: RedisServer): Promise<Instance>;
  /** The release in between: ours around theirs. */
  both(server: RedisServer): Promise<Instance>;
  /** The lock as it will be. */
  after(server: RedisServer): Promise<Instance>;
  /** Theirs and ours, set so that they use one and the same key in Redis. */
  oneKey(server: RedisServer): Promise<readonly [theirs: Instance, ours: Instance]>;
}

const CALLERS = 3;
const PHASE_MS = 4_000;
const WORK_MS = 10;

/** The side of the peer is what happens if the new version simply replaces the old one, instance by instance. */
export function migrationScenario(migration: Migration): Scenario {
  const { library, settings } = migration;
  return {
    title: `Replacing ${library}, instance by instance`,
    workload: `${CALLERS} callers of each instance want one key for ${PHASE_MS / 1_000} s.`,
    limitMs: 60_000,
    areBothNeeded: true,
    peers: [
      {
        library,
        settings,
        async run() {
          const server = await RedisServer.start();
          const inside = new Inside();
          const words = await phase(inside, {
            old: await migration.old(server),
            new: await migration.after(server),
          });
          return judge(inside, words);
        },
      },
    ],
    ours: {
      settings: '',
      async run() {
        const server = await RedisServer.start();
        const inside = new Inside();
        const first = await phase(inside, {
          old: await migration.old(server),
          both: await migration.both(server),
        });
        const second = await phase(inside, {
          both: await migration.both(server),
          new: await migration.after(server),
        });
        const [theirs, ours] = await migration.oneKey(server);
        const third = await phase(inside, { theirs, ours });
        return judge(inside, `${first}; ${second}; on one key: ${third}`);
      },
    },
  };
}

function judge(inside: Inside, words: string): Outcome {
  return {
    holds: inside.most === 1,
    figure: `${inside.most} inside at once`,
    words: `Holds: ${words}.`,
  };
}

/** @returns how often which of them got its turn. @throws Error if one never did: then nothing was proven */
async function phase(inside: Inside, instances: Record<string, Instance>): Promise<string> {
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
