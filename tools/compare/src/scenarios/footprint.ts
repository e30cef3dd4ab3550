import { setTimeout as sleep } from 'node:timers/promises';
import { played, type PlayedSide, type Scenario } from '../scenario.js';
import { type Engine, type EngineName, engineSide } from '../stage/engines.js';
import { commandCount, connect } from '../stage/redis.js';

const ALL = [
  'redlock4',
  'redlock',
  '@sesamecare-oss/redlock',
  'redlock-universal',
  'redis-semaphore',
  'node-redisson',
  'simple-redis-mutex',
  '@redis-kit/lock',
  'nestjs-locked',
] as const satisfies readonly EngineName[];

/** Each of them as it is documented. */
function all(expected: Readonly<Record<EngineName, string>>): PlayedSide<Engine>[] {
  return ALL.map((library) =>
    played(
      expected[library],
      engineSide(library, (engine) => engine),
    ),
  );
}

const ofPeers = (expected: string, own: Partial<Record<EngineName, string>>) =>
  ({ ...Object.fromEntries(ALL.map((library) => [library, expected])), ...own }) as Record<
    EngineName,
    string
  >;

const KEYS = 20_000;
const AT_ONCE = 200;

export const keysLeft: Scenario<Engine> = {
  title: 'What is left of 20,000 keys',
  repeats: 1,
  workload: `${KEYS} different keys are locked and released, ${AT_ONCE} at a time. How many keys does Redis have afterwards? ✓ is at most one, such as a counter.`,
  limitMs: 60_000,
  async play({ hold }, server) {
    const redis = await connect(server);
    const before = await memoryOf(redis);
    let n = 0;
    const lockNext = async (): Promise<void> => {
      while (n < KEYS) {
        n += 1;
        await hold(`stock:${n}`, async () => {});
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, lockNext));
    await sleep(200);
    const left = await redis.dbsize();
    const megabytes = Math.max(0, (await memoryOf(redis)) - before) / 1e6;
    return {
      holds: left <= 1,
      figure: `${left} left`,
      words: `${megabytes.toFixed(1)} MB more than before.`,
    };
  },
  sides: all(ofPeers('✓ # left', { 'nestjs-locked': '✗ # left' })),
};

async function memoryOf(redis: Awaited<ReturnType<typeof connect>>): Promise<number> {
  return Number(/used_memory_dataset:(\d+)/.exec(await redis.info('memory'))?.[1]);
}

export const connections: Scenario<Engine> = {
  title: 'Connections to Redis',
  repeats: 1,
  workload: 'One process locks and waits. How many connections does Redis have from it? ✓ is one.',
  async play({ hold }, server) {
    const contended = [1, 2].map(() => hold('stock:42', () => sleep(300)));
    await Promise.allSettled(contended);
    const redis = await connect(server);
    const list = String(await redis.client('LIST'));
    const count = list.trim().split('\n').length - 1; // that of this question
    return {
      holds: count === 1,
      figure: `${count} ${count === 1 ? 'connection' : 'connections'}`,
      words: '',
    };
  },
  sides: all(
    ofPeers('✓ 1 connection', {
      'node-redisson': '✗ 2 connections',
      'simple-redis-mutex': '✗ 2 connections',
      'nestjs-locked': '✗ 2 connections',
    }),
  ),
};

const ROUNDS = 100;

export const commandsPerLock: Scenario<Engine> = {
  title: 'Commands for one lock',
  repeats: 1,
  workload: `A lock that nobody else wants is taken and released ${ROUNDS} times. How many commands does Redis run for each, those of scripts included? ✓ is at most six.`,
  async play({ hold }, server) {
    const redis = await connect(server);
    await hold('stock:42', async () => {});
    const before = await commandCount(redis);
    for (let i = 0; i < ROUNDS; i += 1) await hold('stock:42', async () => {});
    const each = Math.round(((await commandCount(redis)) - before - 1) / ROUNDS);
    return { holds: each <= 6, figure: `${each} commands`, words: '' };
  },
  sides: all(
    ofPeers('✓ # commands', {
      '@sesamecare-oss/redlock': '✗ # commands',
      'node-redisson': '✗ # commands',
      'simple-redis-mutex': '✗ # commands',
      'nestjs-locked': '✗ # commands',
    }),
  ),
};
