import { TcpProxy } from 'kit';
import { setTimeout as sleep } from 'node:timers/promises';
import { played, type PlayedSide, type Side } from '../scenario.js';
import { type Engine, type EngineName, type EngineSettings, openEngine } from './engines.js';
import { RedisServer } from './redis.js';

/** Of all sides. */
export const QUORUM_LEASE_MS = 5_000;
/** A node of ours that has started votes when it is older. */
const OLD_ENOUGH_MS = QUORUM_LEASE_MS + 2_500;

/** Three independent servers that all sides ask, each behind a way of its own. */
export interface ThreeServers {
  readonly one: Engine;
  /** What another process has that starts now, on the same ways. */
  openOther(): Promise<Engine>;
  /** The same on ways of its own, which nobody cuts. */
  openElsewhere(): Promise<Engine>;
  readonly servers: readonly RedisServer[];
  /** The ways to the servers. */
  readonly proxies: readonly TcpProxy[];
}

/** What comes out with the defaults, and then with clients that keep no commands for a server that is away. */
type Expected = readonly [
  withDefaults: PlayedSide<ThreeServers>['expected'],
  withoutQueue?: PlayedSide<ThreeServers>['expected'],
];

export interface ExpectedOfThree {
  readonly ours: PlayedSide<ThreeServers>['expected'];
  readonly redlock: Expected;
  readonly semaphore: Expected;
  readonly universal: Expected;
}

/** The settings in words, which are the same in all scenarios of three servers. */
export const QUORUM_SETTINGS = {
  redlock: '`using` with the defaults and 5 s.',
  'redis-semaphore':
    '`RedlockMutex` for each call with an `onLockLost`, otherwise the defaults and 5 s.',
  'redlock-universal': '`using` with the defaults and 5 s.',
  'nestjs-locked':
    '`withLock` with `connection: { quorum }`, `leaseMs: 5000`, otherwise the defaults.',
} satisfies Partial<Record<EngineName, string>>;

export type QuorumLibrary = keyof typeof QUORUM_SETTINGS;

/** Three servers that ours lets vote. @param hasOwnClock whether the clocks of the second and the third can be set */
export async function threeServers(
  first: RedisServer,
  hasOwnClock = false,
): Promise<readonly RedisServer[]> {
  const servers = [first];
  for (let n = 0; n < 2; n += 1) servers.push(await RedisServer.start({ hasOwnClock }));
  await sleep(OLD_ENOUGH_MS);
  return servers;
}

function ofThree(
  library: QuorumLibrary,
  hasOwnClock: boolean,
  more: EngineSettings = {},
): Side<ThreeServers> {
  const settings = `${QUORUM_SETTINGS[library]} ${more.settings ?? ''}`.trim();
  return {
    library,
    settings,
    async open(server) {
      const servers = await threeServers(server, hasOwnClock);
      const proxies = await Promise.all(servers.map(({ port }) => new TcpProxy(port).open()));
      const ways = servers.map((it, n) => {
        const { url = '' } = proxies[n] ?? {};
        return Object.create(it, {
          url: { value: url },
          port: { value: Number(new URL(url).port) },
        }) as RedisServer;
      });
      const open = (to: readonly RedisServer[]): Promise<Engine> =>
        openEngine(library, server, { servers: to, leaseMs: QUORUM_LEASE_MS, ...more });
      return {
        one: await open(ways),
        openOther: () => open(ways),
        openElsewhere: () => open(servers),
        servers,
        proxies,
      };
    },
  };
}

/** @param hasOwnClock whether the clocks of the second and the third server can be set */
export function sidesOfThree(
  { ours, redlock, semaphore, universal }: ExpectedOfThree,
  hasOwnClock = false,
): PlayedSide<ThreeServers>[] {
  const both = (
    library: QuorumLibrary,
    [withDefaults, withoutQueue]: Expected,
  ): PlayedSide<ThreeServers>[] => {
    const first = played(withDefaults, ofThree(library, hasOwnClock));
    if (withoutQueue === undefined) return [first];
    const more = {
      settings: 'No queue while a server is away.',
      client: { enableOfflineQueue: false },
    };
    const side = ofThree(library, hasOwnClock, more);
    return [first, played(withoutQueue, side, 'no offline queue')];
  };
  return [
    ...both('redlock', redlock),
    ...both('redis-semaphore', semaphore),
    ...both('redlock-universal', universal),
    played(ours, ofThree('nestjs-locked', hasOwnClock, { own: { isQuorum: true } })),
  ];
}
