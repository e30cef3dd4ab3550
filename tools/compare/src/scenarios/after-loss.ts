import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import { type Outcome, played, type PlayedSide, type Scenario } from '../scenario.js';
import { around, type Decorated, decorated, ours } from '../stage/decorated.js';
import { type EngineName, engineSide } from '../stage/engines.js';
import { murlock, nestPeers } from '../stage/nest-peers.js';
import { connect } from '../stage/redis.js';
import { type Settled, settled } from '../stage/settled.js';

/** What the work does once its lock is gone, and what its caller got. */
interface EndAfterLoss {
  readonly title: string;
  /** How the sentence about the workload ends. */
  readonly andThen: string;
  end(): string;
  judge(result: Settled<unknown>): Outcome;
  readonly sides: readonly PlayedSide<Decorated>[];
}

class OutOfStock extends Error {}

/** A library that runs the work itself; elsewhere, it is up to its user what becomes of a failed release. */
const engine = (library: EngineName) =>
  engineSide(library, ({ hold }) =>
    decorated(around((work, id: string) => hold(`stock:${id}`, work))),
  );

const lenient = murlock(murlock.ofId, {
  settings: '`ignoreUnlockFail: true`, otherwise README.',
  note: 'It hides all other failed releases as well.',
  options: { ignoreUnlockFail: true },
});

const OWN = '✓ OutOfStock';

export const businessError = scenarioAfterLoss({
  title: 'A lost lock, and the work throws',
  andThen: 'throws its own error.',
  end() {
    throw new OutOfStock('none left');
  },
  judge(result) {
    if (result.state !== 'rejected') {
      const words = `The error of the work was replaced, ${result.afterMs} ms later.`;
      return { holds: false, figure: result.state, words };
    }
    const { error, afterMs } = result;
    const holds = error instanceof OutOfStock;
    return {
      holds,
      figure: error.constructor.name,
      words: holds
        ? 'The caller got the error of the work.'
        : `The error of the work was replaced by "${error.message}", ${afterMs} ms later.`,
    };
  },
  sides: [
    ...nestPeers({
      murlock: '✗ MurLockException',
      nestRedlock: '✗ ExecutionError',
      universal: '✗ Error',
      nestjsRedis: OWN,
      simpleRedisLock: OWN,
    }),
    played(OWN, lenient, '`ignoreUnlockFail`'),
    played('✗ ExecutionError', engine('redlock')),
    played('✗ ExecutionError', engine('@sesamecare-oss/redlock')),
    played(OWN, engine('redlock-universal')),
    played(OWN, engine('@redis-kit/lock')),
    played(OWN, ours(Locked('stock:<id>'))),
  ],
});

const RESULT = 'the result';

/** No mark: whether the caller should rather have the result of work that was done, or an error, is a choice. */
export const resultAfterLoss = scenarioAfterLoss({
  title: 'A lost lock, and the work succeeds',
  andThen: 'returns. What does its caller get?',
  end: () => 'done',
  judge(result) {
    if (result.state === 'pending') return { figure: 'nothing', words: 'No answer in 10 s.' };
    if (result.state === 'fulfilled') return { figure: 'the result', words: '' };
    const { error, afterMs } = result;
    return { figure: 'an error', words: `"${error.message}", after ${afterMs} ms.` };
  },
  sides: [
    ...nestPeers({
      murlock: 'an error',
      nestRedlock: 'an error',
      universal: RESULT,
      nestjsRedis: RESULT,
      simpleRedisLock: RESULT,
    }),
    played(RESULT, lenient, '`ignoreUnlockFail`'),
    played('an error', engine('redlock')),
    played('an error', engine('@sesamecare-oss/redlock')),
    played(RESULT, engine('redlock-universal')),
    played(RESULT, engine('@redis-kit/lock')),
    played(RESULT, {
      ...ours(Locked('stock:<id>')),
      note: 'The loss is told by the signal, an event and a line of the log; in a transaction, COMMIT is refused and the caller gets an error.',
    }),
  ],
});

/** The lock is gone before the work ends: its key is deleted, as after a failover. */
function scenarioAfterLoss({
  title,
  andThen,
  end,
  judge,
  sides,
}: EndAfterLoss): Scenario<Decorated> {
  return {
    title,
    repeats: 1,
    workload: `The lock is lost (its key is deleted, as after a failover); then the work ${andThen}`,
    async play({ lock, start }, server) {
      const redis = await connect(server);
      @Injectable()
      class StockService {
        @lock
        async take(id: string): Promise<string> {
          if (id === '42') await redis.flushall();
          return end();
        }
      }
      const stocks = await start(StockService);
      return judge(await settled(stocks.take('42'), 10_000));
    },
    sides,
  };
}
