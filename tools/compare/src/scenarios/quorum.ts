import { TcpProxy } from 'kit';
import { setTimeout as sleep } from 'node:timers/promises';
import { played, type PlayedSide, type Scenario, type Side } from '../scenario.js';
import {
  type Engine,
  type EngineName,
  type EngineSettings,
  engineSide,
  openEngine,
} from '../stage/engines.js';
import { RedisServer } from '../stage/redis.js';
import { inSeconds, settled } from '../stage/settled.js';

/** Of all sides. A node of ours that has started votes when it is older. */
const LEASE_MS = 5_000;
const OLD_ENOUGH_MS = LEASE_MS + 2_500;
const LIMIT_MS = 12_000;

interface Quorum {
  readonly one: Engine;
  /** What another process has that starts now. */
  openOther(): Promise<Engine>;
  readonly servers: readonly RedisServer[];
  /** The ways to the servers. */
  readonly proxies: readonly TcpProxy[];
}

function ofThree(library: EngineName, settings: string, more: EngineSettings = {}): Side<Quorum> {
  return {
    ...engineSide(library, () => ({}) as Quorum, { settings }),
    async open(server) {
      const servers = [server, await RedisServer.start(), await RedisServer.start()];
      const proxies = await Promise.all(servers.map(({ port }) => new TcpProxy(port).open()));
      const ways = servers.map((it, n) => {
        const { url = '' } = proxies[n] ?? {};
        return Object.create(it, {
          url: { value: url },
          port: { value: Number(new URL(url).port) },
        }) as RedisServer;
      });
      await sleep(OLD_ENOUGH_MS);
      const open = (): Promise<Engine> =>
        openEngine(library, server, { servers: ways, leaseMs: LEASE_MS, ...more });
      return { one: await open(), openOther: open, servers, proxies };
    },
  };
}

/** What comes out with the defaults, and then with clients that keep no commands for a server that is away. */
type Expected = readonly [PlayedSide<Quorum>['expected'], PlayedSide<Quorum>['expected']];

interface AllExpected {
  readonly ours: PlayedSide<Quorum>['expected'];
  readonly redlock: Expected;
  readonly semaphore: Expected;
  readonly universal: Expected;
}

function sides({ ours, redlock, semaphore, universal }: AllExpected): PlayedSide<Quorum>[] {
  const both = (
    library: EngineName,
    settings: string,
    [first, second]: Expected,
  ): PlayedSide<Quorum>[] => [
    played(first, ofThree(library, settings)),
    played(
      second,
      ofThree(library, `${settings} No queue while a server is away.`, {
        client: { enableOfflineQueue: false },
      }),
      'no offline queue',
    ),
  ];
  const ofSemaphore =
    '`RedlockMutex` for each call with an `onLockLost`, otherwise the defaults and 5 s.';
  return [
    ...both('redlock', '`using` with the defaults and 5 s.', redlock),
    ...both('redis-semaphore', ofSemaphore, semaphore),
    ...both('redlock-universal', '`using` with the defaults and 5 s.', universal),
    played(
      ours,
      ofThree(
        'nestjs-locked',
        '`withLock` with `connection: { quorum }`, `leaseMs: 5000`, otherwise the defaults.',
        { own: { isQuorum: true } },
      ),
    ),
  ];
}

export const quorumForgets: Scenario<Quorum> = {
  title: 'Of three servers, one is away while a lock is taken, and one of the others forgets it',
  workload:
    'Three independent servers, one of which is down while a lock is taken for 4 s, with a lease of 5 s. Then one of ' +
    'the two that have it restarts without its data, the third comes back, and another process starts and asks for the key. ' +
    '✓ is that he does not get it meanwhile.',
  limitMs: 60_000,
  async play({ one, openOther, servers: [, forgetful, away] }) {
    let inside = 0;
    let most = 0;
    const work = async (): Promise<void> => {
      inside += 1;
      most = Math.max(most, inside);
      await sleep(4_200);
      inside -= 1;
    };
    await away?.kill();
    const holder = one.hold('stock:42', work).catch(() => {});
    for (let n = 0; n < 100 && inside === 0; n += 1) await sleep(50);
    if (inside === 0) return { holds: false, figure: 'not taken in 5 s', words: '' };
    await Promise.all([forgetful?.restart(), away?.restart()]);
    const other = await openOther();
    const second = await settled(other.hold('stock:42', work), 10_000);
    await holder;
    const words =
      second.state === 'rejected'
        ? `The second call failed: "${second.error.message}"`
        : `The second call was ${second.state === 'fulfilled' ? 'served' : 'not answered'}.`;
    return { holds: most === 1, figure: `${most} inside at once`, words };
  },
  sides: sides({
    redlock: ['✗ 2 inside at once', '✗ 2 inside at once'],
    semaphore: ['✗ not taken in 5 s', '✗ 2 inside at once'],
    universal: ['✗ not taken in 5 s', '✗ 2 inside at once'],
    ours: '✓ 1 inside at once',
  }),
};

const PROMPT = '✓ 10 of 10 served, less than 0.1 s each';
const LATE = '✗ 10 of 10 served, # s each';

export const quorumLateAnswer: Scenario<Quorum> = {
  title: 'One of three servers answers a second late',
  workload:
    'Three independent servers, one of which answers a second later than the others. Ten locks are taken and given ' +
    'back, one after the other. ✓ is that nobody waits for the late one: less than 100 ms for each lock.',
  limitMs: 60_000,
  async play({ one, proxies: [, , late] }) {
    await one.hold('stock:41', async () => {});
    for (const link of late?.links ?? []) link.answersLateByMs = 1_000;
    const from = performance.now();
    const results: string[] = [];
    for (let n = 0; n < 10; n += 1) {
      const result = await settled(
        one.hold(`stock:${n}`, async () => {}),
        LIMIT_MS,
      );
      results.push(result.state);
    }
    const ms = (performance.now() - from) / 10;
    const served = results.filter((state) => state === 'fulfilled').length;
    const each = ms < 100 ? 'less than 0.1 s' : inSeconds(ms);
    return {
      holds: served === 10 && ms < 100,
      figure: `${served} of 10 served, ${each} each`,
      words: '',
    };
  },
  sides: sides({
    redlock: [PROMPT, PROMPT],
    semaphore: [LATE, LATE],
    universal: [LATE, LATE],
    ours: PROMPT,
  }),
};

export const quorumMajorityDies: Scenario<Quorum> = {
  title: 'Two of three servers die while a lock is held',
  workload:
    'Three independent servers, two of which are killed while a lock is held with a lease of 5 s that is renewed. ' +
    '✓ is that the work is told by its signal before the lease is over.',
  limitMs: 60_000,
  async play({ one, servers: [first, second] }) {
    let toldMs: number | undefined;
    let killedAt = 0;
    const call = one
      .hold('stock:42', async (signal) => {
        await Promise.all([first?.kill(), second?.kill()]);
        killedAt = performance.now();
        while (toldMs === undefined && performance.now() < killedAt + 9_000) {
          if (signal?.aborted === true) toldMs = performance.now() - killedAt;
          await sleep(10);
        }
      })
      .then(
        () => 'fulfilled',
        () => 'rejected',
      );
    await Promise.race([call, sleep(20_000)]);
    if (toldMs === undefined) return { holds: false, figure: 'not told', words: '' };
    return { holds: toldMs <= LEASE_MS, figure: `told after ${inSeconds(toldMs)}`, words: '' };
  },
  sides: sides({
    redlock: ['✗ not told', '✗ told after # s'],
    semaphore: ['✗ not told', '✓ told after # s'],
    universal: [['✗ not told', '✗ told after # s'], '✓ told after # s'],
    ours: '✓ told after # s',
  }),
};
