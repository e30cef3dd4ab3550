import { describe, expect, it } from '@jest/globals';
import { EventEmitter } from 'node:events';
import { NamedMaster } from '../../libs/nestjs-locked/src/redis/connection/sentinel/named-master.js';
import type {
  SentinelAddress,
  SentinelClient,
  SentinelConnector,
} from '../../libs/nestjs-locked/src/redis/connection/sentinel/sentinel-connector.js';
import { SentinelQuestions } from '../../libs/nestjs-locked/src/redis/connection/sentinel/sentinel-questions.js';

/** A connection for a query, and how it was opened and ended. */
class Question extends EventEmitter {
  readonly limitMs: number | undefined;
  readonly ends: string[] = [];
  readonly stream = { destroy: () => void this.ends.push('destroyed') };

  constructor(options: object) {
    super();
    this.limitMs = (options as { commandTimeout?: number }).commandTimeout;
  }

  disconnect(): void {
    this.ends.push('disconnected');
  }
}

/** What ioredis has in a connection through sentinels; the test gives the answers. */
function connectorOf(answer: () => Promise<SentinelAddress | null>) {
  const asked: Question[] = [];
  const connector = {
    connectToSentinel: (_endpoint: object, options: object = {}) => {
      const question = new Question(options);
      asked.push(question);
      return question as unknown as SentinelClient;
    },
    resolve: (): Promise<SentinelAddress | null> => answer(),
    resolveMaster: (): Promise<SentinelAddress | null> => answer(),
  };
  return { asked, connector: connector as SentinelConnector };
}

const sentinel = { host: 'sentinel', port: 26379 };
const [first, second] = [
  { host: 'a', port: 1 },
  { host: 'b', port: 2 },
];

describe('queries to sentinels', () => {
  it('get more and more time, eight seconds at most, and one second again after an answer', async () => {
    const { asked, connector } = connectorOf(async () => first);
    new SentinelQuestions({ connector }, { onError: () => {} });
    for (let i = 0; i < 5; i++) connector.connectToSentinel(sentinel);
    await connector.resolveMaster(connector.connectToSentinel(sentinel));
    connector.connectToSentinel(sentinel);
    expect(asked.map(({ limitMs }) => limitMs)).toEqual([
      ...[1_000, 2_000, 4_000, 8_000, 8_000, 8_000],
      1_000,
    ]);
  });

  it('are ended without a command to the sentinel, which may not answer that either', () => {
    const { asked, connector } = connectorOf(async () => first);
    const questions = new SentinelQuestions({ connector }, { onError: () => {} });
    connector.connectToSentinel(sentinel);
    questions.leave();
    connector.connectToSentinel(sentinel);
    expect(asked.map(({ ends }) => ends)).toEqual([['destroyed'], ['disconnected']]);
  });
});

describe('a master that a sentinel has named', () => {
  it('is not left if the connection leads to another one when the sentinel answers', async () => {
    let answer = async (): Promise<SentinelAddress> => first;
    const { connector } = connectorOf(() => answer());
    const master = new NamedMaster(connector);
    await connector.resolve(sentinel);
    let tell = (_: SentinelAddress): void => {};
    const late = new Promise<SentinelAddress>((resolve) => (tell = resolve));
    answer = () => late;
    const isReplaced = master.isReplaced(sentinel);
    answer = async () => second;
    await connector.resolve(sentinel);
    tell(second);
    expect(await isReplaced).toBe(false);
  });
});
