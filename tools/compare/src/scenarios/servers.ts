import { setTimeout as sleep } from 'node:timers/promises';
import { played, type PlayedSide, type Scenario, type Side } from '../scenario.js';
import {
  type Engine,
  type EngineName,
  type EngineSettings,
  engineSide,
  openEngine,
} from '../stage/engines.js';
import { connect, connectToHeld, RedisServer } from '../stage/redis.js';
import { inSeconds, settled } from '../stage/settled.js';

const LIMIT_MS = 12_000;
const REFUSED = '✓ rejected after # s';

/** One of two servers has the key. */
function onTwo(library: EngineName, settings: EngineSettings = {}): Side<() => Promise<unknown>> {
  return {
    ...engineSide(library, () => () => Promise.resolve(), settings),
    async open(server) {
      const servers = [server, await RedisServer.start()];
      const { key, hold } = await openEngine(library, server, { ...settings, servers });
      await connectToHeld(server, key('stock:42'));
      return () => hold('stock:42', async () => {});
    },
  };
}

export const evenNumberOfServers: Scenario<() => Promise<unknown>> = {
  title: 'Two servers, and the key is taken on one of them',
  repeats: 1,
  workload:
    'One of two servers grants the lock and one refuses it: there is no majority. Libraries that know one server, as ' +
    'ours does, cannot be asked.',
  async play(acquire) {
    const result = await settled(acquire(), LIMIT_MS);
    if (result.state === 'pending') {
      return {
        holds: false,
        figure: `no answer in ${LIMIT_MS / 1_000} s`,
        words: 'The call neither succeeded nor failed: no vote had a majority.',
      };
    }
    return {
      holds: result.state === 'rejected',
      figure: `${result.state} after ${inSeconds(result.afterMs)}`,
      words: result.state === 'rejected' ? `"${result.error.message}"` : 'It was taken.',
    };
  },
  sides: [
    played('✗ no answer in 12 s', {
      ...onTwo('redlock'),
      note: 'Its README recommends an odd number of servers.',
    }),
    played('✗ no answer in 12 s', onTwo('@sesamecare-oss/redlock')),
    played(REFUSED, onTwo('redlock4')),
    played(REFUSED, onTwo('redlock-universal')),
    played(REFUSED, {
      ...onTwo('redis-semaphore', { settings: '`RedlockMutex` with the defaults and 5 s.' }),
    }),
    played(REFUSED, onTwo('@redis-kit/lock')),
  ],
};

/** A lock, and the servers that it may use. */
interface Three {
  readonly engine: Engine;
  readonly servers: readonly RedisServer[];
}

function onThree(library: EngineName, settings: EngineSettings = {}): Side<Three> {
  return {
    ...engineSide(library, () => ({}) as Three, settings),
    async open(server) {
      const servers = [server, await RedisServer.start(), await RedisServer.start()];
      return { engine: await openEngine(library, server, { ...settings, servers }), servers };
    },
  };
}

const semaphore =
  '`RedlockMutex` for each call with an `onLockLost`, otherwise the defaults and 5 s.';
const noQueue = { client: { enableOfflineQueue: false } } as const;

/**
 * Those that ask several servers, and then those that know one.
 *
 * @param queueing of those that wait for a client that has lost its server, and keeps its commands
 */
function ofThree(
  several: PlayedSide<Three>['expected'],
  one: PlayedSide<Three>['expected'],
  queueing = several,
): PlayedSide<Three>[] {
  const withNoQueue = (library: EngineName, settings: string): PlayedSide<Three> =>
    played(
      several,
      onThree(library, { ...noQueue, settings: `${settings} No queue while a server is away.` }),
      'no offline queue',
    );
  return [
    played(queueing, onThree('redlock4')),
    withNoQueue('redlock4', '`lock` and `unlock` with the defaults and 5 s.'),
    played(several, onThree('redlock')),
    played(several, onThree('@sesamecare-oss/redlock')),
    played(queueing, onThree('redlock-universal')),
    withNoQueue('redlock-universal', '`using` with the defaults and 5 s.'),
    played(queueing, onThree('redis-semaphore', { settings: semaphore })),
    withNoQueue('redis-semaphore', semaphore),
    played(queueing, onThree('@redis-kit/lock')),
    withNoQueue('@redis-kit/lock', '`withLock` with the defaults and 5 s.'),
    played(one, onThree('node-redisson')),
    played(one, onThree('simple-redis-mutex')),
    played(one, onThree('nestjs-locked')),
  ];
}

const SERVED = '✓ served after # s';
const NOT_SERVED = ['✗ rejected after # s', '✗ no answer in 12 s'];

export const oneOfThreeDies: Scenario<Three> = {
  title: 'One of three servers dies',
  workload:
    'Three independent servers; one is killed, and a lock is asked for. Libraries that know one server have that one. ' +
    '✓ is a lock within 12 s.',
  async play({ engine, servers: [first] }) {
    await engine.hold('stock:41', async () => {});
    await first?.kill();
    await sleep(100);
    const call = engine.hold('stock:42', async () => {});
    const result = await settled(call, LIMIT_MS);
    if (result.state === 'pending') {
      return { holds: false, figure: `no answer in ${LIMIT_MS / 1_000} s`, words: '' };
    }
    const isServed = result.state === 'fulfilled';
    return {
      holds: isServed,
      figure: `${isServed ? 'served' : 'rejected'} after ${inSeconds(result.afterMs)}`,
      words: isServed ? '' : `"${withoutPorts(result.error.message)}"`,
    };
  },
  sides: ofThree(SERVED, NOT_SERVED, NOT_SERVED),
};

export const oneOfThreeEmptied: Scenario<Three> = {
  title: 'One of three servers forgets its keys',
  workload:
    'Three independent servers; one is emptied while a lock is held for 2 s, as by a restart without a file or a failover. ' +
    'A second call for the key comes 100 ms later. Libraries that know one server have that one.',
  async play({ engine, servers: [first] }) {
    let inside = 0;
    let most = 0;
    const work = async (): Promise<void> => {
      inside += 1;
      most = Math.max(most, inside);
      await sleep(2_000);
      inside -= 1;
    };
    const holder = engine.hold('stock:42', work);
    await sleep(300);
    await (await connect(first as RedisServer)).flushall();
    await sleep(100);
    await Promise.allSettled([holder, engine.hold('stock:42', work)]);
    return { holds: most === 1, figure: `${most} inside at once`, words: '' };
  },
  sides: ofThree('✓ 1 inside at once', '✗ 2 inside at once').filter(
    ({ variant }) => variant === undefined,
  ),
};

const NUMBER = 1;

/** Held while the databases are looked at. */
function onDatabase(library: EngineName, own: object = {}, settings?: string): Side<unknown> {
  return engineSide(
    library,
    ({ hold }) =>
      new Promise<void>((resolve, reject) => {
        hold('stock:42', () => {
          resolve();
          return new Promise<never>(() => {});
        }).catch(reject);
      }),
    { client: { db: NUMBER }, own, ...(settings !== undefined && { settings }) },
  );
}

const IN_ONE = '✓ in database 1';

export const databaseNumber: Scenario = {
  title: 'A client on database 1',
  repeats: 1,
  workload: 'A lock is taken with a client whose `db` is 1.',
  async play(_, server) {
    const databases = [0, NUMBER];
    const sizes = await Promise.all(
      databases.map(async (db) => (await connect(server, { db })).dbsize()),
    );
    return {
      holds: sizes[0] === 0 && sizes[1] !== 0,
      figure: `in database ${databases.filter((_, i) => sizes[i] !== 0).join(' and ')}`,
      words: '',
    };
  },
  sides: [
    played('✗ in database 0', onDatabase('@sesamecare-oss/redlock')),
    played(
      IN_ONE,
      onDatabase('@sesamecare-oss/redlock', { db: NUMBER }, '`db: 1` for the library, too.'),
      '`db: 1`',
    ),
    played(IN_ONE, onDatabase('redlock4')),
    played(IN_ONE, onDatabase('redlock')),
    played(IN_ONE, onDatabase('redlock-universal')),
    played(IN_ONE, onDatabase('redis-semaphore')),
    played(IN_ONE, onDatabase('node-redisson')),
    played(IN_ONE, onDatabase('simple-redis-mutex')),
    played(IN_ONE, onDatabase('@redis-kit/lock')),
    played(IN_ONE, onDatabase('nestjs-locked')),
  ],
};

/** Ports differ in every run. */
function withoutPorts(message: string): string {
  return message.replaceAll(/(127\.0\.0\.1):\d+/g, '$1');
}
