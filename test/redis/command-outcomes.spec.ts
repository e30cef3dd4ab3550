/** The outcomes of commands, on a fake clock, over a connection whose server is played by the test. */
import { describe, expect, it } from '@jest/globals';
import { CommandConnection } from '../../libs/nestjs-locked/src/redis/connection/traffic/command-connection.js';
import type { CommandOutcome } from '../../libs/nestjs-locked/src/redis/connection/traffic/redis-command.js';
import { RedisKeys } from '../../libs/nestjs-locked/src/redis/scripts/redis-keys.js';
import type { RedisScript } from '../../libs/nestjs-locked/src/redis/scripts/redis-script.js';
import { FakeClock, settled } from '../support/fake-clock.js';
import { PlayedRedis } from '../support/played-redis.js';

const LIMIT_MS = 1_000;
/** This many may wait for a connection. */
const MOST = 1_000;

async function start() {
  const [clock, redis] = [new FakeClock(), new PlayedRedis()];
  const connection = new CommandConnection({
    ...{ name: 'lock:commands', clock, inCluster: false, scripts: [] },
    ...{ timeLimitMs: LIMIT_MS, leaseMs: 3 * LIMIT_MS, pingEveryMs: 1_000_000 },
    check: (own) => own.ping(),
    keys: new RedisKeys('lock:'),
  });
  const told: string[] = [];
  connection.open(redis.client, {
    admitted: () => {},
    failed: () => {},
    lost: () => void told.push('lost'),
    back: () => void told.push('back'),
    replaced: () => void told.push('replaced'),
  });
  await settled();
  expect(connection.isReady).toBe(true);
  const run = (key?: string): Played => new Played(connection, key);
  return { clock, redis, connection, told, run };
}

type Connected = Awaited<ReturnType<typeof start>>;

/** A command that the test answers. */
class Played {
  sent = 0;
  outcome: CommandOutcome | undefined;
  answer!: (reply: unknown) => void;
  #reject!: (error: Error) => void;

  constructor(connection: CommandConnection, key = 'k', isRepeatable = true) {
    const send = (): Promise<unknown> => {
      this.sent++;
      return new Promise((resolve, reject) => {
        this.answer = resolve;
        this.#reject = reject;
      });
    };
    const command = { action: `use '${key}'`, keys: [key], isRepeatable, send };
    void connection.run(command, (outcome) => (this.outcome = outcome));
  }

  refuse(message: string): void {
    this.#reject(Object.assign(new Error(message), { name: 'ReplyError' }));
  }
}

interface SentBatch {
  readonly keys: readonly string[];
  readonly answer: (reply: unknown) => void;
  readonly refuse: (error: Error) => void;
}

/** Commands that share what they send; the test answers each batch. */
class PlayedBatches {
  readonly sent: SentBatch[] = [];
  readonly #outcomes: (readonly [name: string, outcome: CommandOutcome])[] = [];
  readonly #connection: CommandConnection;

  constructor({ connection }: Connected) {
    this.#connection = connection;
  }

  acquire(key: string, token: string): void {
    this.#run(true, key, [token, 60_000, 660_000]);
  }

  /** The outcomes of the commands for this key and token that have ended, in the order of their ends. */
  ended(key: string, token: string): CommandOutcome[] {
    return this.#outcomes.flatMap(([name, outcome]) => (name === `${key} ${token}` ? outcome : []));
  }

  release(key: string, token: string): void {
    this.#run(false, key, [token]);
  }

  /** @param message how the batch with this number is refused */
  async refuse(number: number, message: string): Promise<void> {
    this.sent[number]?.refuse(Object.assign(new Error(message), { name: 'ReplyError' }));
    await settled();
  }

  async answer(number: number, reply: unknown): Promise<void> {
    this.sent[number]?.answer(reply);
    await settled();
  }

  #run(isAcquire: boolean, key: string, args: readonly (string | number)[]): void {
    const sendKeys = (_: unknown, keys: readonly string[]): Promise<unknown> =>
      new Promise((answer, refuse) => this.sent.push({ keys, answer, refuse }));
    const script = { send: sendKeys } as unknown as RedisScript;
    const part = { script, isAcquire, keys: () => [key], args };
    const send = (): Promise<unknown> => sendKeys(undefined, [key]);
    const name = `${key} ${args[0]}`;
    const command = { action: `use '${key}'`, keys: [key], part, send };
    void this.#connection.run(command, (outcome) => this.#outcomes.push([name, outcome]));
  }
}

/** A command whose answer comes after its time. */
async function late({ clock, run }: Connected, tookMs = LIMIT_MS): Promise<void> {
  const command = run();
  await clock.advance(tookMs);
  expect(command.outcome).toMatchObject({ kind: 'failed' });
  command.answer('late');
  await settled();
}

describe('answers that come too late', () => {
  it('show that the link is too slow if there are three in a row', async () => {
    const connected = await start();
    for (let i = 0; i < 3; i++) {
      expect(connected.redis.made).toBe(1);
      await late(connected);
    }
    expect(connected.redis.made).toBe(2);
  });

  it('are the reason of the outage, with the shortest of them, until there is a connection again', async () => {
    const connected = await start();
    const { clock, redis, run } = connected;
    redis.info = () => new Promise(() => {});
    for (const tookMs of [LIMIT_MS + 300, LIMIT_MS + 200, LIMIT_MS + 400])
      await late(connected, tookMs);
    const next = run();
    await clock.advance(LIMIT_MS);
    const message = expect.stringContaining('a round trip to Redis took 1200 ms');
    expect(next.outcome).toMatchObject({ kind: 'failed', cause: { message } });
  });

  it('show nothing if one between them was in time', async () => {
    const connected = await start();
    for (let i = 0; i < 2; i++) await late(connected);
    const inTime = connected.run();
    inTime.answer('in time');
    await settled();
    await late(connected);
    expect(connected.redis.made).toBe(1);
  });

  it('show nothing of another connection', async () => {
    const connected = await start();
    for (let i = 0; i < 2; i++) await late(connected);
    connected.connection.reconnect(new Error('the address has moved'));
    await settled();
    expect(connected.redis.made).toBe(2);
    await late(connected);
    expect(connected.redis.made).toBe(2);
  });
});

describe('a server that is silent', () => {
  it('is sent the waiting commands as soon as there is a new connection', async () => {
    const { clock, connection, run } = await start();
    run();
    await clock.advance(LIMIT_MS);
    const waiting = run();
    await settled();
    expect(waiting.sent).toBe(0);
    connection.reconnect(new Error('it was silent'));
    await settled();
    expect(waiting.sent).toBe(1);
  });

  it('keeps no more than a thousand commands waiting', async () => {
    const { clock, run } = await start();
    run();
    await clock.advance(LIMIT_MS);
    const waiting = Array.from({ length: MOST }, () => run());
    const refused = run();
    await settled();
    expect(waiting.map(({ outcome }) => outcome)).toEqual(Array(MOST).fill(undefined));
    expect(refused.outcome).toMatchObject({ kind: 'failed', neverRan: true });
  });
});

describe('a new connection', () => {
  it('in place of an idle, dead one is reported when it has answered in time', async () => {
    const { clock, redis, told, run } = await start();
    await clock.advance(100_000);
    const command = run();
    await clock.advance(0.5 * LIMIT_MS);
    expect([redis.made, command.sent]).toEqual([2, 2]);
    expect(told).toEqual([]);
    command.answer('in time');
    await settled();
    expect(told).toEqual(['replaced']);
  });

  it('is not used if it breaks while its server answers the first query', async () => {
    const { redis, connection } = await start();
    let answer!: (info: string) => void;
    redis.info = () => new Promise((resolve) => (answer = resolve));
    connection.reconnect(new Error('the address has moved'));
    await settled();
    answer('role:master');
    redis.disconnect();
    await settled();
    expect(connection.isReady).toBe(false);
  });

  it('that takes as long as a command may is reported as missing before that command fails', async () => {
    const { clock, redis, told, connection } = await start();
    await clock.advance(100_000); // it is idle
    redis.info = () => new Promise(() => {});
    const command = { action: 'use it', keys: [], send: () => new Promise(() => {}) };
    void connection.run(command, () => told.push('failed'));
    await clock.advance(LIMIT_MS - 1);
    expect(redis.made).toBe(2);
    expect(told).toEqual([]);
    await clock.advance(1);
    expect(told).toEqual(['lost', 'failed']);
  });
});

describe('a command whose script was forgotten', () => {
  it('is not sent after one for the same lock that the server has refused', async () => {
    const { run } = await start();
    const [forgotten, later] = [run('k'), run('k')];
    forgotten.refuse('NOSCRIPT No matching script');
    await settled();
    expect(forgotten.outcome).toBeUndefined();
    later.refuse('WRONGTYPE Operation against a key holding the wrong kind of value');
    await settled();
    expect(forgotten.outcome).toMatchObject({
      ...{ kind: 'failed', neverRan: true },
      cause: { message: expect.stringMatching(/a later command was quicker/) },
    });
    expect(forgotten.sent).toBe(1);
  });

  it('is sent on the next connection, like all others, if this one breaks before its turn', async () => {
    const { connection, run } = await start();
    const [forgotten, other] = [run('k'), run('other')];
    forgotten.refuse('NOSCRIPT No matching script');
    await settled();
    connection.reconnect(new Error('the address has moved'));
    await settled();
    expect([forgotten.sent, other.sent]).toEqual([2, 2]);
    expect(run('third').sent).toBe(1);
  });

  it('does not make its server count as silent when its time is over: then others are sent', async () => {
    const { clock, run } = await start();
    const forgotten = run('k');
    await clock.advance(0.5 * LIMIT_MS);
    run('other');
    await clock.advance(0.4 * LIMIT_MS);
    forgotten.refuse('NOSCRIPT No matching script');
    await settled();
    const waiting = run('third');
    await clock.advance(0.1 * LIMIT_MS - 1);
    expect(waiting.sent).toBe(0);
    await clock.advance(1);
    expect(forgotten.outcome).toMatchObject({ kind: 'failed' });
    expect(waiting.sent).toBe(1);
  });
});

describe('when the connection is closed', () => {
  it('a sent command may have been carried out, a waiting one was not', async () => {
    const { clock, connection, run } = await start();
    run();
    await clock.advance(0.1 * LIMIT_MS);
    const sent = run();
    await clock.advance(0.9 * LIMIT_MS);
    const waiting = run();
    connection.close();
    await settled();
    expect([sent.sent, waiting.sent]).toEqual([1, 0]);
    expect(sent.outcome).toMatchObject({ kind: 'failed', neverRan: false });
    expect(waiting.outcome).toMatchObject({ kind: 'failed', neverRan: true });
  });

  it('a command that must not be repeated and waits for a sign of life ends', async () => {
    const { clock, redis, connection } = await start();
    await clock.advance(100_000); // it is idle
    redis.ping = () => new Promise(() => {});
    const command = new Played(connection, 'k', false);
    await settled();
    expect(command.sent).toBe(0);
    connection.close();
    await settled();
    expect(command.outcome).toMatchObject({ kind: 'failed', neverRan: true });
  });
});

describe('a batch', () => {
  it('that a replica refuses has not run, but what was sent before on another connection may have', async () => {
    const connected = await start();
    const batches = new PlayedBatches(connected);
    batches.acquire('a', '1');
    batches.acquire('b', '2');
    await settled();
    connected.redis.disconnect(true);
    batches.acquire('c', '3');
    await settled();
    expect(batches.sent.map(({ keys }) => keys)).toEqual([
      ['a', 'b'],
      ['a', 'b', 'c'],
    ]);
    await batches.answer(0, ['late', 'late']);
    expect(batches.ended('a', '1')).toEqual([]);
    await batches.refuse(1, "READONLY You can't write against a read only replica.");
    await batches.answer(2, ['one', 'two', 'three']);
    expect(batches.ended('a', '1')).toMatchObject([{ reply: 'one', mayHaveRunBefore: true }]);
    expect(batches.ended('b', '2')).toMatchObject([{ reply: 'two', mayHaveRunBefore: true }]);
    expect(batches.ended('c', '3')).toMatchObject([{ reply: 'three', mayHaveRunBefore: false }]);
  });

  /** Two batches, of which the first is refused because of 'forbidden', after the second was answered. */
  async function overtaken(
    batches: PlayedBatches,
    second: () => void,
    isAnswered = true,
  ): Promise<void> {
    batches.acquire('forbidden', '1');
    batches.release('k', '2');
    batches.acquire('a', '3');
    batches.acquire('b', '4');
    second();
    batches.acquire('c', '6');
    await settled();
    expect(batches.sent.map(({ keys }) => keys.length)).toEqual([4, 2]);
    await batches.refuse(0, 'NOPERM this user has no permissions to access one of the keys');
    if (isAnswered) await batches.answer(1, ['later', 'c']);
    else await batches.refuse(1, 'ERR later');
  }

  it('that is sent again releases a lock for which another token has asked meanwhile', async () => {
    const batches = new PlayedBatches(await start());
    await overtaken(batches, () => batches.acquire('k', '5'));
    expect(batches.ended('k', '5')).toMatchObject([{ reply: 'later' }]);
    const again = batches.sent.findIndex(({ keys }, i) => i > 1 && keys.join() === 'k');
    await batches.answer(again, 'released');
    expect(batches.ended('k', '2')).toMatchObject([{ kind: 'answered', reply: 'released' }]);
  });

  it.each([
    [{ kind: 'answered', reply: 'later' }, true],
    [{ kind: 'failed', cause: { message: "Cannot use 'k': ERR later" } }, false],
  ])(
    'that is sent again does not repeat what a later command for the same token has overtaken: %o',
    async (later, isAnswered) => {
      const batches = new PlayedBatches(await start());
      await overtaken(batches, () => batches.release('k', '2'), isAnswered);
      const message = expect.stringContaining('a later command was quicker');
      expect(batches.ended('k', '2')).toMatchObject([
        { kind: 'failed', cause: { message } },
        later,
      ]);
      expect(batches.sent.slice(2).map(({ keys }) => keys.join())).toEqual(['forbidden', 'a', 'b']);
    },
  );
});
