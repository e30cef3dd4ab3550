import { describe, expect, it } from '@jest/globals';
import { delayBeginsOf } from '../../libs/nestjs-locked/src/transactions/orm/client-source.js';
import {
  DelayedBegin,
  opening as showing,
} from '../../libs/nestjs-locked/src/transactions/orm/delayed-begin.js';

type Callback = (error: unknown, result?: unknown) => void;

/** A statement as node-postgres has it, and what it writes. */
class FakeQuery {
  constructor(
    readonly config: { text: string },
    _: undefined,
    readonly callback: Callback,
  ) {}
  submit(connection: { parse(query: { text: string }): void }): void {
    connection.parse(this.config);
  }
  handleCommandComplete(message: string): void {
    this.callback(null, { rows: [message] });
  }
}

/** A client that notes its messages; each is what it sends without waiting for an answer. */
class FakeClient {
  static readonly Query = FakeQuery;
  readonly messages: string[] = [];
  failsAt: string | undefined;
  #message: string[] = [];
  readonly connection = {
    stream: { cork: (): void => {}, uncork: (): void => {} },
    parse: ({ text }: { text: string }): void => void this.#message.push(text),
    bind: (): void => {},
    execute: (): void => {},
  };

  query(statement: unknown, ...more: unknown[]): unknown {
    if (statement instanceof FakeQuery) {
      this.#message = [];
      statement.submit(this.connection);
      this.messages.push(this.#message.join(' | '));
      for (const text of this.#message) statement.handleCommandComplete(text);
      return statement;
    }
    const { text = statement } = statement as { text?: unknown };
    this.messages.push(text as string);
    if (text === this.failsAt) return Promise.reject(new Error(`${text as string} has failed`));
    const callback = more.find((one): one is Callback => typeof one === 'function');
    if (callback === undefined) return Promise.resolve({ rows: [text] });
    callback(null, { rows: [text] });
    return undefined;
  }
}

class FakePool {
  readonly totalCount = 1;
  readonly client = new FakeClient();

  connect(callback?: (error: unknown, client: unknown) => void): unknown {
    if (callback === undefined) return Promise.resolve(this.client);
    callback(null, this.client);
    return undefined;
  }
}

const shown = (begin: DelayedBegin) => ({
  on: (client: unknown) => begin.on(client),
  isOn: () => {},
  connecting: () => {},
});

/** Opens a transaction, in which the claim carries BEGIN if nothing comes before it. */
const opening = async (
  work: (client: FakeClient, begin: DelayedBegin) => Promise<unknown>,
): Promise<{ client: FakeClient; begin: DelayedBegin; result: unknown }> => {
  const pool = new FakePool();
  expect([delayBeginsOf(pool), delayBeginsOf(pool)]).toEqual([true, true]);
  const begin = new DelayedBegin();
  const result = await showing(shown(begin), async () =>
    work((await pool.connect()) as FakeClient, begin),
  ).finally(() => begin.over());
  return { client: pool.client, begin, result };
};

describe('a BEGIN that waits for the claim', () => {
  it('is sent in one message with it, and with the isolation level', async () => {
    const { client, begin, result } = await opening(async (pg, begin) => {
      expect(await pg.query('START TRANSACTION')).toMatchObject({ rows: [], command: 'START' });
      await pg.query('SET TRANSACTION ISOLATION LEVEL SERIALIZABLE');
      const claimed = await begin.speaking(async () => pg.query('claim', ['key']));
      await pg.query('COMMIT');
      return claimed;
    });
    const [first, second] = client.messages;
    expect(first).toBe('START TRANSACTION | SET TRANSACTION ISOLATION LEVEL SERIALIZABLE | claim');
    expect(second).toBe('COMMIT');
    expect(result).toEqual({ rows: ['claim'] });
    expect(begin.client).toBe(client);
    expect(Object.keys(client)).not.toContain('query');
  });

  it('works with callbacks, and objects as statements', async () => {
    const pool = new FakePool();
    delayBeginsOf(pool);
    const begin = new DelayedBegin();
    const told: unknown[] = [];
    await showing(
      shown(begin),
      () =>
        new Promise<void>((resolve) => {
          pool.connect((_, pg) => {
            const client = pg as FakeClient;
            client.query({ text: 'BEGIN;' }, (_: unknown, result: unknown) => {
              told.push(result);
              void begin.speaking(async () =>
                client.query({ text: 'claim', values: ['key'] }, (_: unknown, result: unknown) => {
                  told.push(result);
                  resolve();
                }),
              );
            });
          });
        }),
    );
    expect(pool.client.messages).toEqual(['BEGIN; | claim']);
    expect(told).toMatchObject([{ command: 'BEGIN' }, { rows: ['claim'] }]);
  });

  it.each([
    ['a statement', ['SELECT 1']],
    ['a statement with parameters', ['SELECT $1', [1]]],
    ['a COMMIT', ['COMMIT']],
  ])('is sent before %s that is not the claim', async (_, statement) => {
    const { client, begin } = await opening(async (pg) => {
      await pg.query('BEGIN');
      await pg.query(...(statement as [string]));
    });
    expect(client.messages).toEqual(['BEGIN', statement[0]]);
    expect(begin.client).toBeUndefined();
  });

  it('that fails takes the statements with it: they would take effect on their own', async () => {
    const { client } = await opening(async (pg) => {
      await pg.query('BEGIN');
      pg.failsAt = 'BEGIN';
      const first = expect(pg.query('UPDATE stock')).rejects.toThrow('BEGIN has failed');
      const told = new Promise((resolve) => void pg.query('UPDATE again', resolve));
      expect(await told).toMatchObject({ message: 'BEGIN has failed' });
      await first;
    });
    expect(client.messages).toEqual(['BEGIN']);
  });

  it('that fails leaves the client to its next user, even if no ROLLBACK was sent', async () => {
    const { client } = await opening(async (pg) => {
      await pg.query('BEGIN');
      pg.failsAt = 'BEGIN';
      await expect(pg.query('UPDATE stock')).rejects.toThrow('BEGIN has failed');
      await expect(pg.query('UPDATE stock')).rejects.toThrow('BEGIN has failed');
    });
    expect(await client.query('SELECT 1')).toEqual({ rows: ['SELECT 1'] });
    expect(client.messages).toEqual(['BEGIN', 'SELECT 1']);
  });

  it('is sent before a query that sends itself, and before one with a callback', async () => {
    const cursor = new FakeQuery({ text: 'cursor' }, undefined, () => {});
    const first = await opening(async (pg) => {
      await pg.query('BEGIN');
      expect(pg.query(cursor)).toBe(cursor);
    });
    expect(first.client.messages).toEqual(['BEGIN', 'cursor']);
    const second = await opening(async (pg) => {
      await pg.query('BEGIN');
      await new Promise<void>((resolve) => void pg.query('SELECT 1', () => resolve()));
    });
    expect(second.client.messages).toEqual(['BEGIN', 'SELECT 1']);
  });

  it('is not sent if it is rolled back first', async () => {
    const { client } = await opening(async (pg) => {
      await pg.query('BEGIN');
      expect(await pg.query('ROLLBACK')).toMatchObject({ command: 'ROLLBACK' });
    });
    expect(client.messages).toEqual([]);
  });

  it('is forgotten with its transaction: the next user of the client does not get it', async () => {
    const { client } = await opening(async (pg) => pg.query('BEGIN'));
    await client.query('SELECT 1');
    await client.query('BEGIN');
    expect(client.messages).toEqual(['SELECT 1', 'BEGIN']);
  });

  it('is the first of its transaction only, on the client that came first', async () => {
    const { client } = await opening(async (pg, begin) => {
      await pg.query('BEGIN');
      await begin.speaking(async () => pg.query('claim', ['key']));
      begin.opened();
      await pg.query('BEGIN');
    });
    expect(client.messages).toEqual(['BEGIN | claim', 'BEGIN']);
  });

  it('is not delayed on a client that is connected by the body, nor outside', async () => {
    const pool = new FakePool();
    delayBeginsOf(pool);
    const begin = new DelayedBegin();
    await showing(shown(begin), async () => {
      begin.opened();
      const client = (await pool.connect()) as FakeClient;
      await client.query('BEGIN');
    });
    await ((await pool.connect()) as FakeClient).query('BEGIN');
    expect(pool.client.messages).toEqual(['BEGIN', 'BEGIN']);
  });
});

it('what is not node-postgres is left alone', () => {
  expect(delayBeginsOf({})).toBe(false);
  expect(delayBeginsOf({ client: { driverName: 'mysql2' } })).toBe(false);
  expect(delayBeginsOf({ driver: { master: { connect: () => {} } } })).toBe(false);
});
