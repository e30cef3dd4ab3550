/** Random commands have the same answers, and leave the same keys, whether they are sent one by one or in batches. */
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { newProcessId } from '../../../libs/nestjs-locked/src/core/store/lease-token.js';
import { systemClock } from '../../../libs/nestjs-locked/src/core/time/clock.js';
import { RedisLockStore } from '../../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { eventually } from '../../support/eventually.js';
import { useRedisServer } from '../../support/own-redis.js';
import { uniqueKey } from '../../support/unique-key.js';

const KEYS = 8;
const COMMANDS = 200;
/** No lease, and no acceptance, ends while a history runs. */
const LEASE_MS = 600_000;

/** Who introduced a token: we, a process that listens, or one that does not. */
type Owner = 'ours' | 'live' | 'dead';
type Damage = 'mend' | 'expire' | 'foreign' | 'hash' | 'queue' | 'fence';

/** `back`: which of the tokens of its key, from the newest on. */
type Step = { readonly key: number } & (
  | {
      readonly what: 'acquire';
      readonly owner: Owner;
      readonly nowait: boolean;
      readonly position: number;
    }
  | {
      readonly what: 'release';
      readonly back: number;
      readonly used: number;
      readonly keepMs: number;
    }
  | {
      readonly what: 'requeue';
      readonly back: number;
      readonly used: number;
      readonly owner: Owner;
    }
  | { readonly what: 'damage'; readonly damage: Damage }
);

const key = fc.nat(KEYS - 1);
const owner = fc.constantFrom<Owner>('ours', 'ours', 'live', 'dead');
const back = fc.nat(3);
const used = fc.constantFrom(0, 0, 1);
const step = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({
      ...{ what: fc.constant('acquire' as const), key, owner, nowait: fc.boolean() },
      position: fc.constantFrom(0, 0, 1, 2),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      ...{ what: fc.constant('release' as const), key, back, used },
      keepMs: fc.constantFrom(0, 0, 0, LEASE_MS),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ what: fc.constant('requeue' as const), key, back, used, owner }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      ...{ what: fc.constant('damage' as const), key },
      damage: fc.constantFrom<Damage>(
        'mend',
        'mend',
        'expire',
        'foreign',
        'hash',
        'queue',
        'fence',
      ),
    }),
  },
) satisfies fc.Arbitrary<Step>;

const history = fc.array(step, { minLength: COMMANDS, maxLength: COMMANDS });
const turns = fc.array(fc.integer({ min: 2, max: 80 }), { minLength: 10, maxLength: 10 });

describe('random histories', () => {
  const server = useRedisServer();

  it('of 200 commands on 8 keys are the same one by one and in batches', async () => {
    await fc.assert(
      fc.asyncProperty(history, turns, async (steps, sizes) => {
        const alone = await World.open(server.url, server.admin);
        const together = await World.open(server.url, server.admin);
        try {
          const expected = await alone.play(steps, [1]);
          const answers = await together.play(steps, sizes);

          expect(answers).toEqual(expected);
          expect(await together.state()).toEqual(await alone.state());
          await eventually(async () => expect(together.heard).toEqual(alone.heard));
          expect(together.sent).toBeLessThan(alone.sent / 2);
        } finally {
          await Promise.all([alone.close(), together.close()]);
        }
      }),
      // Shrinking takes minutes; the message has the seed.
      { numRuns: Number(process.env['BATCH_HISTORIES'] ?? 25), endOnFailure: true },
    );
  });
});

/** One process with keys of its own, and others whose tokens it sends. */
class World {
  /** Messages to the processes that listen. */
  readonly heard: Record<string, string[]> = { ours: [], live: [] };
  /** The number of scripts that the server has run for the commands. */
  sent = 0;
  readonly #admin: Redis;
  readonly #listener: Redis;
  readonly #prefix: string;
  readonly #store: RedisLockStore;
  readonly #processes: Record<Owner, string>;
  /** The tokens introduced for each key, the newest first. */
  readonly #tokens: string[][] = Array.from({ length: KEYS }, () => []);
  #count = 0;

  static async open(url: string, admin: Redis): Promise<World> {
    const world = new World(url, admin);
    await world.#store.open({
      message: (message) => {
        if ('token' in message)
          world.#hear('ours', `${message.kind} ${world.#named(message.token)}`);
      },
      reconnected: () => {},
      inboxLost: () => {},
      mayEvict: () => {},
      storeLost: () => {},
      storeBack: () => {},
    });
    world.#listener.on('message', (_: string, text: string) => {
      const [kind, token = ''] = text.split(' ');
      world.#hear('live', `${kind} ${world.#named(token)}`);
    });
    await world.#listener.subscribe(`${world.#prefix}inbox:${world.#processes.live}`);
    return world;
  }

  private constructor(url: string, admin: Redis) {
    this.#admin = admin;
    this.#listener = new Redis(url);
    this.#prefix = `${uniqueKey()}:`;
    const client = new Redis(url, { lazyConnect: true });
    const closeClient = async (): Promise<void> => client.disconnect();
    const settings = { clock: systemClock, keyPrefix: this.#prefix, leaseMs: LEASE_MS };
    this.#store = new RedisLockStore({ client, ...settings, closeClient });
    const ours = this.#store.processId;
    this.#processes = { ours, live: newProcessId(), dead: newProcessId() };
  }

  /** @param sizes how many steps there are in each turn of the event loop, again and again */
  async play(steps: readonly Step[], sizes: readonly number[]): Promise<unknown[]> {
    const before = await this.#scripts();
    const answers: unknown[] = [];
    let turn: Promise<unknown>[] = [];
    let turns = 0;
    const end = async (): Promise<void> => {
      answers.push(...(await Promise.all(turn)));
      turn = [];
      turns++;
    };
    for (const each of steps) {
      if (each.what === 'damage') {
        await end();
        await this.#damage(this.#keysOf(each.key), each.damage);
      } else {
        turn.push(this.#send(each).then((reply) => this.#comparable(reply)));
        if (turn.length >= (sizes[turns % sizes.length] ?? 1)) await end();
      }
    }
    await end();
    this.sent = (await this.#scripts()) - before;
    return answers;
  }

  /** What is stored for each key, apart from times. */
  async state(): Promise<unknown[]> {
    return Promise.all(
      Array.from({ length: KEYS }, async (_, n) => {
        const keys = this.#keysOf(n);
        const types = await Promise.all(keys.map((name) => this.#admin.type(name)));
        const expire = await Promise.all(
          keys.map(async (name) => (await this.#admin.pttl(name)) > 0),
        );
        const [lock, queue] = keys;
        const value = types[0] === 'string' ? String(await this.#admin.get(lock)) : '';
        const members = types[1] === 'zset' ? await this.#admin.zrange(queue, 0, '-1') : [];
        return {
          types,
          expire,
          value: this.#named(value),
          members: members.map((each) => this.#named(each)),
        };
      }),
    );
  }

  async close(): Promise<void> {
    this.#listener.disconnect();
    await this.#store.close();
  }

  #send(each: Exclude<Step, { what: 'damage' }>): Promise<object> {
    const name = `key-${each.key}`;
    if (each.what === 'acquire') {
      const { owner: by, nowait, position } = each;
      const command = {
        key: name,
        token: this.#introduce(each.key, by),
        leaseMs: LEASE_MS,
        nowait,
      };
      // No two have the same: the order of their tokens would decide, which is another in each world.
      const unique = 1_000 * position + this.#count;
      return this.#store.acquire(position === 0 ? command : { ...command, position: unique });
    }
    const tokens = this.#tokens[each.key] as string[];
    const token = tokens[each.back] ?? this.#introduce(each.key, 'ours');
    const command = { key: name, token, used: each.used };
    if (each.what === 'release') return this.#store.release({ ...command, keepMs: each.keepMs });
    const newToken = this.#introduce(each.key, each.owner);
    return this.#store.requeue({ ...command, newToken, leaseMs: LEASE_MS });
  }

  #introduce(n: number, by: Owner): string {
    const token = `${this.#processes[by]}:${++this.#count}`;
    this.#tokens[n]?.unshift(token);
    return token;
  }

  async #damage([lock, queue, fence, lapsed]: Keys, how: Damage): Promise<void> {
    const admin = this.#admin;
    const written = { hash: lock, queue, fence }[how as string] ?? lock;
    await (how === 'mend' ? admin.del(lock, queue, fence, lapsed) : admin.del(written));
    if (how === 'foreign') await admin.set(lock, 'somebody', 'PX', LEASE_MS);
    if (how !== 'hash' && how !== 'queue' && how !== 'fence') return;
    await admin.hset(written, 'a', 'b');
    await admin.pexpire(written, LEASE_MS);
  }

  #keysOf(n: number): Keys {
    const lock = `${this.#prefix}{key-${n}}`;
    return [lock, `${lock}:queue`, `${lock}:fence`, `${lock}:lapsed`];
  }

  #hear(who: string, message: string): void {
    this.heard[who]?.push(message);
  }

  async #scripts(): Promise<number> {
    const statistics = await this.#admin.info('commandstats');
    return Number(/cmdstat_evalsha:calls=(\d+)/.exec(statistics)?.[1] ?? 0);
  }

  /** Tokens by the names of their processes, which differ from world to world. */
  #named(text: string): string {
    let named = text;
    for (const [name, id] of Object.entries(this.#processes)) named = named.replaceAll(id, name);
    return named;
  }

  /** Without times, and without what a message says about the script. */
  #comparable(reply: object): unknown {
    const { fence, blockEnd, position, remainingMs, cause, ...rest } = reply as Record<
      string,
      unknown
    >;
    const reason =
      cause instanceof Error
        ? /[A-Z]{4,} [\w ]+?(?= script\b|;|$)/.exec(cause.message)?.[0]
        : undefined;
    const isNumbered = fence === undefined || Number(fence) <= Number(blockEnd);
    const has = { position: position !== undefined, remainingMs: remainingMs !== undefined };
    return JSON.parse(this.#named(JSON.stringify({ ...rest, reason, isNumbered, has }))) as unknown;
  }
}

type Keys = [lock: string, queue: string, fence: string, lapsed: string];
