import { setTimeout as sleep } from 'node:timers/promises';
import { played, type PlayedSide, type Scenario, type Side } from '../scenario.js';
import {
  type Engine,
  type EngineName,
  ENGINES,
  type EngineSettings,
  openEngine,
} from '../stage/engines.js';
import { connect } from '../stage/redis.js';
import { inSeconds, type Settled, settled } from '../stage/settled.js';

const USER = { username: 'app', password: 'secret' } as const;

/** Opened only when the scenario says so. */
type Opening = () => Promise<Engine>;

function opening(library: EngineName, settings: EngineSettings = {}): Side<Opening> {
  return {
    library,
    settings: settings.settings ?? ENGINES[library].settings,
    note: settings.note,
    open: (server) => () => openEngine(library, server, settings),
  };
}

const BOTH = '✓ both served in # s';
const NO_START = '✗ does not start';

export const noRightToSubscribe: Scenario<Opening> = {
  title: 'A user of Redis without Pub/Sub',
  limitMs: 90_000,
  workload:
    'Redis lets its user run all commands but those of Pub/Sub. Two calls for one key come at once; each works for 200 ms. ' +
    '✓ is that both are served within 10 s.',
  async play(open, server) {
    const admin = await connect(server);
    await admin.acl('SETUSER', USER.username, 'on', `>${USER.password}`, '~*', ...RIGHTS);
    let engine;
    try {
      engine = await open();
    } catch (error) {
      const words = `"${firstLine(error as Error)}"`;
      return { holds: false, figure: 'does not start', words };
    }
    const from = performance.now();
    const calls = [1, 2].map(() =>
      settled(
        engine.hold('stock:42', () => sleep(200)),
        10_000,
      ),
    );
    const results = await Promise.all(calls);
    const served = results.filter(({ state }) => state === 'fulfilled').length;
    const failed = results.find(({ state }) => state === 'rejected');
    const words = failed?.state === 'rejected' ? `"${failed.error.message}"` : '';
    return served === 2
      ? { holds: true, figure: `both served in ${inSeconds(performance.now() - from)}`, words }
      : { holds: false, figure: `${served} of 2 served`, words };
  },
  sides: sidesWith(
    [
      ['redlock4', BOTH],
      ['redlock', BOTH],
      ['@sesamecare-oss/redlock', BOTH],
      ['redlock-universal', BOTH],
      ['redis-semaphore', BOTH],
      ['node-redisson', '✗ exit code 1'],
      ['simple-redis-mutex', '✗ exit code 1'],
      ['@redis-kit/lock', BOTH],
      ['nestjs-locked', NO_START],
    ],
    { client: USER },
  ),
};

/** As a cautious administrator gives them; `default` keeps all. */
const RIGHTS = ['+@all', '-@pubsub', '-@dangerous', '+info'];

const DOWN_MS = 20_000;
const SERVED = '✓ served after # s';

export const redisStartsLater: Scenario<Opening> = {
  title: 'Redis is down for 20 s when the application starts',
  repeats: 1,
  workload:
    'The application starts while Redis is down, which comes 20 s later. Can a lock be had within 10 s from then, by asking again ' +
    'and again, and without a restart of the application?',
  limitMs: 90_000,
  async play(open, server) {
    await server.kill();
    const started = settled(open(), 40_000);
    await sleep(DOWN_MS);
    await server.restart();
    const from = performance.now();
    const app = await started;
    if (app.state !== 'fulfilled') {
      const words = app.state === 'rejected' ? `"${firstLine(app.error)}"` : '';
      return { holds: false, figure: 'does not start', words };
    }
    const ask = (): Promise<Settled<void>> =>
      settled(
        app.value.hold('stock:42', async () => {}),
        10_000,
      );
    let result = await ask();
    while (result.state !== 'fulfilled' && performance.now() - from < 10_000) {
      await sleep(100);
      result = await ask();
    }
    const after = inSeconds(performance.now() - from);
    return result.state === 'fulfilled'
      ? { holds: true, figure: `served after ${after}`, words: '' }
      : {
          holds: false,
          figure: 'not served',
          words: result.state === 'rejected' ? `"${firstLine(result.error)}"` : '',
        };
  },
  sides: [
    ...sidesWith(
      [
        ['redlock4', SERVED],
        ['redlock', SERVED],
        ['@sesamecare-oss/redlock', SERVED],
        ['redlock-universal', SERVED],
        ['redis-semaphore', SERVED],
        ['node-redisson', SERVED],
        ['simple-redis-mutex', SERVED],
        ['@redis-kit/lock', SERVED],
        ['nestjs-locked', NO_START],
      ],
      {},
    ),
    played(
      SERVED,
      opening('nestjs-locked', {
        own: { startWithoutRedis: true },
        settings: '`startWithoutRedis: true`.',
      }),
      '`startWithoutRedis`',
    ),
  ],
};

function sidesWith(
  sides: readonly (readonly [EngineName, PlayedSide<Opening>['expected']])[],
  settings: EngineSettings,
): PlayedSide<Opening>[] {
  return sides.map(([library, expected]) => played(expected, opening(library, settings)));
}

/** Ports differ in every run. */
function firstLine({ message }: Error): string {
  return (message.split('\n')[0] ?? '')
    .replaceAll(/(127\.0\.0\.1):\d+/g, '$1')
    .replace(/; it needs .*/, '; it needs …');
}
