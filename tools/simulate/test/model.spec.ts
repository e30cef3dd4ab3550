/**
 * The model of Redis beside a real server: the same commands and the same scripts of the library, on the same random
 * keys, are answered alike. The clocks differ, so times and what follows from them are compared by their distance.
 */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { RedisServer } from 'dev-servers';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { QuorumScripts } from '../../../libs/nestjs-locked/src/redis/quorum/quorum-scripts.js';
import { LockScripts } from '../../../libs/nestjs-locked/src/redis/scripts/lock-scripts.js';
import { LuaScripts } from '../src/server/lua-scripts.js';
import { ModelServer } from '../src/server/model-server.js';
import { ErrorReply, type Reply, StatusReply } from '../src/server/reply.js';

let real: RedisServer;
let redis: Redis;
/** The library's own user, whose rights are taken away. */
let tested: Redis;
let scripts: LuaScripts;

beforeAll(async () => {
  real = await RedisServer.start();
  redis = new Redis(real.url, { protocol: 2 });
  await redis.call('ACL', 'SETUSER', 'app', 'on', '>secret', '~*', '&*', '+@all');
  tested = new Redis(real.url, { protocol: 2, username: 'app', password: 'secret' });
  scripts = await LuaScripts.create();
});

afterAll(async () => {
  redis?.disconnect();
  tested?.disconnect();
  await real?.stop();
});

const key = fc.constantFrom('a', 'b', 'c');
const member = fc.constantFrom('m', 'n', 'o', '');
const number = fc.constantFrom(
  '0',
  '1',
  '2',
  '-1',
  '10',
  '1764000000123456',
  '1.5',
  'x',
  '007',
  '-0',
);
const ms = fc.constantFrom('60000', '90000', '0', '-1', 'x');

/** Each command by itself, rightly and wrongly. */
const command = fc.oneof(
  fc.tuple(fc.constantFrom('GET', 'DEL', 'EXISTS', 'PTTL', 'ZCARD'), key),
  fc.tuple(fc.constantFrom('DEL', 'EXISTS', 'ZSCORE', 'ZREM'), key, member),
  fc.tuple(fc.constant('SET'), key, number),
  fc.tuple(fc.constant('SET'), key, member, fc.constantFrom('PX', 'px', 'NX', 'QX'), ms),
  fc.tuple(fc.constant('SET'), key, member, fc.constant('PX'), ms, fc.constantFrom('GET', 'NX')),
  fc.tuple(fc.constant('PEXPIRE'), key, ms),
  fc.tuple(fc.constant('ZADD'), key, number, member),
  fc.tuple(fc.constant('ZADD'), key, number, member, number, member),
  fc.tuple(fc.constant('ZADD'), key, fc.constantFrom('NX', 'nx'), number, member),
  fc.tuple(fc.constant('ZRANK'), key, member),
  fc.tuple(fc.constant('ZREM'), key, member, member),
  fc.tuple(fc.constantFrom('ZRANGE', 'ZREVRANGE'), key, number, number),
  fc.tuple(fc.constantFrom('ZRANGE', 'ZREVRANGE'), key, number, number, fc.constant('WITHSCORES')),
  fc.tuple(fc.constantFrom('GET', 'ZSCORE', 'SET', 'PUBLISH', 'NOSUCH')),
  fc.tuple(fc.constant('PUBLISH'), key, member),
  fc.tuple(fc.constant('PUBSUB'), fc.constant('NUMSUB'), key, key),
);

describe('the model of Redis', () => {
  it('answers every command as a real server does', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { minLength: 1, maxLength: 30 }), async (commands) => {
        const model = await freshPair();
        for (const [name, ...args] of commands as readonly (readonly [string, ...string[]])[]) {
          const theirs = await answer(() => redis.call(name, ...args));
          expectAlike([name, ...args, model.command(name, args)], [name, ...args, theirs]);
        }
        expectAlike(contentsOf(model), await contentsOfReal());
      }),
      { numRuns: 300 },
    );
  });

  it('runs the scripts of the library as a real server does', async () => {
    const library = new LockScripts({
      inCluster: false,
      inboxPrefix: 'lock:inbox:',
      acceptMs: 1_000,
      fenceKeepMs: 600_000,
    });
    await runAlike(14, 150, (step) => commandOf(library, step));
  });

  it.each([0, 1, 60_000])(
    'runs the scripts of a quorum as a real server does, which is young for %i ms',
    async (youngMs) => {
      const library = new QuorumScripts({
        inboxPrefix: 'lock:inbox:',
        fenceKeepMs: 600_000,
        youngMs,
      });
      await runAlike(14, 50, (step) => commandOfQuorum(library, step), youngMs);
    },
  );

  it('issues no number twice on a fence that the clock has just reached, alone and in a batch', async () => {
    const now = 1_795_000_000_000_000;
    const { acquire, batch } = new LockScripts({
      inCluster: false,
      inboxPrefix: 'lock:inbox:',
      acceptMs: 1_000,
      fenceKeepMs: 600_000,
    });
    const run = (stored: number, count: number): number[] => {
      const model = new ModelServer({ scripts, micros: () => now });
      model.command('SET', ['lock:fence', String(stored)]);
      const names = Array.from({ length: count }, (_, i) => `k${i}`);
      const keys = names.flatMap((name) => [
        ...keysOf(name).slice(0, 2),
        'lock:fence',
        ...keysOf(name).slice(3),
      ]);
      const args = names.flatMap((_, i) => [`${PROCESSES[0]}:${i + 1}`, '60000']);
      const [script, given] = count === 1 ? [acquire, args] : [batch, ['b'.repeat(count), ...args]];
      const { lua } = script as { readonly lua: string };
      const reply = model.command('EVAL', [lua, String(keys.length), ...keys, ...given]);
      const replies = count === 1 ? [reply] : (reply as Reply[]);
      return replies.map((one) => Number(Array.isArray(one) ? one[2] : one));
    };
    for (const count of [1, 4])
      for (const ahead of [-5, -1, 0, 1, 2, 3, 4, 5_000]) {
        const numbers = run(now + ahead, count);
        expect(numbers).toHaveLength(count);
        expect(numbers.filter((number) => !(number > now + ahead))).toEqual([]);
        expect(new Set(numbers).size).toBe(count);
      }
  });

  it.each(['SET', 'ZADD', 'PEXPIRE', 'DEL', 'ZREM', 'PUBLISH', 'GET', 'PUBSUB'])(
    'refuses %s, alone and in a script, as a real server does without the right to it',
    async (name) => {
      const model = await freshPair();
      await redis.call('ACL', 'SETUSER', 'app', `-${name.toLowerCase()}`);
      model.refused.add(name);
      try {
        for (const ask of ASKED) {
          const [command = '', ...args] = ask;
          const theirs = await answer(() => tested.call(command, ...args));
          expectAlike([ask, model.command(command, args)], [ask, theirs]);
        }
        model.refused.clear();
        expectAlike(contentsOf(model), await contentsOfReal());
      } finally {
        await redis.call('ACL', 'SETUSER', 'app', '+@all');
      }
    },
  );

  it('would notice a wrong answer', () => {
    const wrong: readonly (readonly [Reply, Reply])[] = [
      [
        ['granted', 'a:1', '1764000000123456'],
        ['queued', 'a:1'],
      ],
      [
        ['granted', 'a:1'],
        ['granted', 'a:1', '1764000000123456'],
      ],
      [59_000, 30_000],
      [1, 2],
      ['1764000000123456', '17'],
      ['h a:1 59000 stock', 'h a:1 30000 stock'],
      ['h a:1 59000 stock', 'h a:2 59000 stock'],
    ];
    for (const [ours, theirs] of wrong) expect(() => expectAlike(ours, theirs)).toThrow();
    expectAlike(['h a:1 57499 stock', 57_499], ['h a:1 57501 stock', 57_501]);
  });
});

type Step = [which: number, one: number, other: number, from: number];

interface ScriptCommand {
  readonly lua: string;
  readonly keys: readonly string[];
  readonly args: readonly (string | number)[];
}

/**
 * Runs random sequences of scripts on both, with troubles in between.
 *
 * @param count of the commands to choose from
 * @param youngMs the server has started so recently
 */
async function runAlike(
  count: number,
  numRuns: number,
  commandFor: (step: Step) => ScriptCommand,
  youngMs = 0,
): Promise<void> {
  const script = fc.tuple(fc.nat(count - 1), fc.nat(3), fc.nat(3), fc.nat(2));
  const trouble = fc.constantFrom(...TROUBLES);
  const steps = fc.array(
    fc.oneof({ weight: 8, arbitrary: script }, { weight: 1, arbitrary: trouble }),
    { minLength: 2, maxLength: 25 },
  );
  await fc.assert(
    fc.asyncProperty(steps, async (chosen) => {
      const model = await freshPair(youngMs);
      const heard: unknown[][] = [];
      const inbox = `lock:inbox:${PROCESSES[0]}`;
      model.subscribe(inbox, { hear: (...message) => heard.push(message) });
      const listener = redis.duplicate();
      await listener.subscribe(inbox);
      const heardThere: unknown[][] = [];
      listener.on('message', (...message) => heardThere.push(message));
      try {
        for (const step of chosen) {
          if (typeof step === 'string') {
            await happen(model, step);
            continue;
          }
          const { lua, keys, args } = commandFor(step);
          const theirs = await answer(() => tested.eval(lua, keys.length, ...keys, ...args));
          const given = args.map(String);
          const ours = model.command('EVAL', [lua, String(keys.length), ...keys, ...given]);
          expectAlike([step, ours], [step, theirs]);
          expectAlike(contentsOf(model), await contentsOfReal());
        }
        model.refused.clear();
        await redis.publish(inbox, 'last');
        model.command('PUBLISH', [inbox, 'last']);
        while (heardThere.at(-1)?.[1] !== 'last') await new Promise((now) => setImmediate(now));
        expectAlike(heard, heardThere);
      } finally {
        listener.disconnect();
      }
    }),
    { numRuns },
  );
}

/**
 * What may happen between two scripts: the memory is full, no replica is left, a right is lost, another program writes.
 */
const TROUBLES = [
  'full',
  'no replicas',
  '-publish',
  '-pubsub',
  '-zadd',
  'all well',
  'text',
  'set',
  'gone',
] as const;

async function happen(model: ModelServer, what: (typeof TROUBLES)[number]): Promise<void> {
  const both = async (name: string, ...args: readonly string[]): Promise<void> => {
    await redis.call(name, ...args);
    // It has rights of its own.
    const refused = [...model.refused];
    model.refused.clear();
    model.command(name, args);
    for (const each of refused) model.refused.add(each);
  };
  const [lock = '', queue = '', fence = ''] = keysOf('stock');
  switch (what) {
    case 'full':
      await redis.config('SET', 'maxmemory', '1');
      model.isFull = true;
      return;
    case 'no replicas':
      await redis.config('SET', 'min-replicas-to-write', '1');
      model.isRefusingWrites = true;
      return;
    case 'all well':
      await allWell();
      model.isFull = false;
      model.isRefusingWrites = false;
      model.refused.clear();
      return;
    case 'text':
    case 'set':
    case 'gone':
      if (model.isFull || model.isRefusingWrites) return;
      await both('DEL', lock, queue, fence);
      if (what === 'text') await both('SET', queue, 'theirs');
      if (what === 'set') {
        for (const key of [lock, fence]) await both('ZADD', key, '1', 'theirs');
      }
      return;
    case '-publish':
    case '-pubsub':
    case '-zadd':
      await redis.call('ACL', 'SETUSER', 'app', what);
      model.refused.add(what.slice(1).toUpperCase());
  }
}

async function allWell(): Promise<void> {
  await redis.config('SET', 'maxmemory', '0');
  await redis.config('SET', 'min-replicas-to-write', '0');
  await redis.call('ACL', 'SETUSER', 'app', '+@all');
}

/** The first one listens, the second one does not. */
const PROCESSES = ['a'.repeat(32), 'b'.repeat(32)] as const;

function commandOf(
  {
    acquire,
    acquireTogether,
    recheck,
    renew,
    release,
    leave,
    takeBack,
    revoke,
    inspect,
    prolong,
  }: LockScripts,
  [which, one, other, from]: Step,
): ScriptCommand {
  const process = PROCESSES[from === 2 ? 1 : 0];
  // Every other one is a reader.
  const tokenOf = (n: number): string => `${process}:${n}${n % 2 === 1 ? 's' : ''}`;
  const [token, next] = [tokenOf(one), tokenOf(other)];
  const [k, l] = [keysOf('stock'), keysOf('other')];
  const all: readonly (readonly [
    { lua: string },
    readonly string[],
    readonly (string | number)[],
  ])[] = [
    [acquire, k, [token, 60_000]],
    [acquire, k, [token, 60_000, 1]],
    [acquire, l, [token, 60_000, 0, 1_764_000_000_000_000]],
    [acquireTogether, [...k, ...l], [60_000, token, next]],
    [recheck, k, [token, next, 60_000, '']],
    [renew, [...k, ...l], [token, 90_000, 0, 32, next, 90_000, 0, 0]],
    [release, k, [token]],
    [release, k, [token, 0, next, 60_000]],
    [release, k, [token, 0, '', 0, 30_000]],
    [leave, k, [token, next, 60_000]],
    [takeBack, [...k, ...l], [token, next, 0, 0, next, '', 0, 30_000]],
    [prolong, [...k.slice(0, 2), ...l.slice(0, 2)], [token, 90_000, next, 45_000]],
    [revoke, k, from === 0 ? ['0'] : ['0', token]],
    [inspect, k.slice(0, 2), [process, 0]],
  ];
  const [script, keys, args] = all[which] as (typeof all)[number];
  return { lua: script.lua, keys, args };
}

function commandOfQuorum(
  { vote, giveBack, renew, raise, adopt, undoAdopt }: QuorumScripts,
  [which, one, other, from]: Step,
): ScriptCommand {
  const process = PROCESSES[from === 2 ? 1 : 0];
  const [token, next] = [one, other].map((n) => `${process}:${n}`) as [string, string];
  const since = 1_764_000_000_000_000 + one;
  const round = 1 + (from % 2);
  const [k, l] = ['stock', 'other'].map((name) => {
    const [lock = '', queue = ''] = keysOf(name);
    return [lock, queue, `${lock}:fence`];
  }) as [string[], string[]];
  const all: readonly (readonly [
    { lua: string },
    readonly string[],
    readonly (string | number)[],
  ])[] = [
    [vote, k, [token, 60_000, '', '', round]],
    [vote, k, [token, 60_000, token, since, round]],
    [vote, k, [next, 60_000, token, since, round]],
    [vote, l, [next, 60_000, next, since, 1]],
    [giveBack, k, [token, '', 5, 0, 0, '', '', 1, '']],
    [giveBack, k, [token, next, '', 0, 0, token, '', 1, '']],
    [giveBack, k, [token, '', 0, 0, 0, token, since, 0, round]],
    [giveBack, k, [token, '', '', 30_000, 1, '', '', 1, '']],
    [giveBack, k, ['', '', '', 0, 0, token, '', 1, '']],
    [renew, [...k, ...l], [token, 90_000, 7, next, 90_000, 7]],
    [raise, k, [token, 1_764_000_009_000_000, 60_000]],
    [adopt, k, [token, next, 60_000, 7, round]],
    [undoAdopt, k, [token, next, 60_000, round]],
    [vote, l, [token, 60_000, '', '', round]],
  ];
  const [script, keys, args] = all[which] as (typeof all)[number];
  return { lua: script.lua, keys, args };
}

function keysOf(name: string): string[] {
  const lock = `lock:{${name}}`;
  return [lock, `${lock}:queue`, 'lock:fence', `${lock}:lapsed`];
}

/** @param youngMs both have started so recently, if it is long; otherwise, neither has */
async function freshPair(youngMs = 0): Promise<ModelServer> {
  await allWell();
  await redis.flushall();
  const model = new ModelServer({ scripts, micros: () => Date.now() * 1000 });
  if (youngMs > 10_000) model.restart(new Map());
  return model;
}

async function answer(ask: () => Promise<unknown>): Promise<Reply> {
  try {
    return (await ask()) as Reply;
  } catch (error) {
    return new ErrorReply((error as Error).message);
  }
}

/** Commands with a right or without, and scripts that write before they are refused, or after. */
const ASKED: readonly (readonly string[])[] = [
  ['SET', 'a', '1'],
  ['ZADD', 'b', '1', 'm'],
  ['PUBSUB', 'NUMSUB', 'c'],
  ...[
    "return redis.call('GET', 'a')",
    "redis.call('ZREM', 'b', 'n') redis.call('SET', 'a', '2', 'PX', 60000) return redis.call('ZADD', 'b', 2, 'o')",
    "redis.call('SET', 'a', '3') return 1",
    "redis.call('ZADD', 'b', 3, 'p') return redis.call('PEXPIRE', 'b', 60000)",
    "redis.pcall('SET', 'a', '4') redis.pcall('ZADD', 'b', 4, 'q') return redis.call('DEL', 'c')",
    "return redis.call('PUBLISH', 'c', 'x')",
    "return redis.call('PUBSUB', 'NUMSUB', 'c')",
    "local reply = redis.pcall('PUBLISH', 'c', 'x') return type(reply)",
  ].map((script) => ['EVAL', script, '0']),
];

const KEYS = [
  ...['a', 'b', 'c', 'lock:{stock}:fence', 'lock:{other}:fence'],
  ...keysOf('stock'),
  ...keysOf('other'),
];

async function contentsOfReal(): Promise<readonly unknown[]> {
  const read = async (of: string): Promise<unknown> => {
    const text = await answer(() => redis.get(of));
    const isSet = text instanceof ErrorReply;
    return [
      of,
      isSet ? await redis.call('ZRANGE', of, 0, -1, 'WITHSCORES') : text,
      lifeOf(text, await redis.pttl(of)),
    ];
  };
  return Promise.all(KEYS.map(read));
}

function contentsOf(model: ModelServer): readonly unknown[] {
  const read = (of: string): Reply => {
    const text = model.command('GET', [of]);
    const value =
      text instanceof ErrorReply ? model.command('ZRANGE', [of, '0', '-1', 'WITHSCORES']) : text;
    return [of, value, lifeOf(text, model.command('PTTL', [of]))];
  };
  return KEYS.map(read);
}

/** A turn is too short to be measured while one server is asked after the other. */
function lifeOf(value: unknown, pttl: Reply): Reply {
  return typeof value === 'string' && value.startsWith('turn:') ? 'short' : pttl;
}

/** Within this, two times are the same: one server is asked after the other, on a machine that may be busy. */
const SAME_MS = 5_000;

/**
 * Expects the same, apart from times. Of the time of day, in microseconds, only its length counts. A fence ahead of the
 * clock is followed by the time of its writing; whether it is, depends on microseconds.
 */
function expectAlike(ours: Reply | readonly unknown[], theirs: Reply | readonly unknown[]): void {
  const wanted = plain(theirs);
  expect(near(plain(ours), wanted)).toEqual(wanted);
}

function plain(reply: unknown): unknown {
  if (Array.isArray(reply)) {
    const [first, ms, ...rest] = reply.map(plain);
    return first === 'no' ? [first, lifeOf(rest.at(-1), ms as Reply), ...rest] : reply.map(plain);
  }
  if (reply instanceof StatusReply) return reply.text;
  if (reply instanceof ErrorReply) return { error: /^\w+/.exec(reply.message)?.[0] };
  if (typeof reply !== 'string') return reply;
  // The answer for one of several keys.
  if (/^(?:ERR|OOM|WRONGTYPE|NOPERM|NOREPLICAS) /.test(reply))
    return { error: /^\w+/.exec(reply)?.[0] };
  return reply.replace(/(\d{16}) \d{16}/g, '$1');
}

/** Ours, with their times where both are the same. */
function near(ours: unknown, theirs: unknown): unknown {
  if (Array.isArray(ours) && Array.isArray(theirs)) {
    return ours.map((item, i) => near(item, theirs[i]));
  }
  if (typeof ours === 'number' && typeof theirs === 'number') {
    return Math.min(ours, theirs) > 100 && isNear(ours, theirs) ? theirs : ours;
  }
  if (typeof ours !== 'string' || typeof theirs !== 'string') return ours;
  const other = theirs.split(DIGITS);
  return ours
    .split(DIGITS)
    .map((part, i) => nearDigits(part, other[i] ?? '', ours.startsWith('h ') ? 3 : 5))
    .join('');
}

const DIGITS = /(\d+)/;

/** @param least so many digits are a time; in the message that says how long a lease lasts, fewer */
function nearDigits(ours: string, theirs: string, least: number): string {
  const areTimes = [ours, theirs].every((part) => /^\d+$/.test(part) && part.length >= least);
  if (!areTimes) return ours;
  const areOfDay = ours.length >= 16 && theirs.length >= 16;
  return areOfDay || isNear(Number(ours), Number(theirs)) ? theirs : ours;
}

function isNear(ours: number, theirs: number): boolean {
  return Math.abs(ours - theirs) < SAME_MS;
}
