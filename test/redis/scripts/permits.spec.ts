/** Permits in trouble: what the contract of all stores cannot do to a key. */
import { describe, expect, it } from '@jest/globals';
import { shortReleaseScript } from '../../../libs/nestjs-locked/src/redis/scripts/short-release.lua.js';
import { shortRenewScript } from '../../../libs/nestjs-locked/src/redis/scripts/short-renew.lua.js';
import { openAdmin } from '../../support/open-locks.js';
import { runScript } from '../../support/run-script.js';
import { LEASE_MS, ScriptBench } from '../../support/script-bench.js';
import { expectLife, queued } from '../../support/script-replies.js';
import { fillMemory, startSmallRedis } from '../../support/small-redis.js';
import { useScripts } from '../../support/use-scripts.js';
import { expectNotOurs } from '../../support/value-of-others.js';

const { newBench, connectAs } = useScripts();

const asPermit = (token: string, permits = 2): string => `${token}p1/${permits}`;

/** Two processes that have both permits, and one that waits. */
async function fullBench(bench = newBench()) {
  const [first, second, third] = [await bench.peer(), await bench.peer(), await bench.peer()];
  const tokens = [asPermit(first.token()), asPermit(second.token())] as const;
  for (const token of tokens) admitted(await bench.acquire(token), token);
  const waiting = asPermit(third.token());
  queued(await bench.acquire(waiting), waiting);
  return { bench, tokens, third, waiting };
}

/** Checks that the reply grants the lock to this token; that of a free lock is only a number. */
const admitted = ([kind, granted]: readonly unknown[], token: string): void =>
  expect(granted === undefined && Number(kind) > 0 ? ['granted', token] : [kind, granted]).toEqual([
    'granted',
    token,
  ]);

const setsOf = async (redis: { info(part: string): Promise<string> }): Promise<number> =>
  Number(/cmdstat_set:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1]);

/** The slot and the token of each holder. */
const holders = (value: string | null): string[] =>
  (value ?? '')
    .split(' ')
    .slice(1)
    .map((it) => it.slice(it.indexOf('/') + 1));

it('permits are renewed, given back and handed on by a server out of memory', async () => {
  const full = openAdmin((await startSmallRedis()).url);
  const { bench, tokens, third, waiting } = await fullBench(new ScriptBench(full));
  await fillMemory(full);

  expect(await bench.renew(tokens[1], 0)).not.toEqual([]);
  const { prolong } = bench.scripts;
  const longer = [tokens[1], LEASE_MS];
  expect(await runScript(full, prolong, [bench.lock, bench.queue], longer)).toEqual([1, [1, 1]]);
  expect(await runScript(full, shortRenewScript, [bench.lock], longer)).toEqual([[0, 0]]);
  expect(await bench.release(tokens[1], 0)).toEqual(['released']);
  expect(await third.heard()).toEqual([expect.stringMatching(`^p ${waiting} 1 `)]);
  expect(holders(await full.get(bench.lock))).toEqual([`0:${tokens[0]}`, `1:${waiting}`]);
  expect(await bench.release(tokens[0], 0)).toEqual(['released']);
  expect(holders(await full.get(bench.lock))).toEqual([`1:${waiting}`]);
  expect(await runScript(full, shortReleaseScript, [bench.lock], [waiting, 0])).toBe('released');
  expect(await bench.state()).toMatchObject({ lock: null, queue: [] });
});

it('a permit that cannot be announced stays free, and who waits keeps its place', async () => {
  const { bench, tokens, third, waiting } = await fullBench();
  const mute = bench.as(await connectAs('+@all', 'resetchannels'));

  expect(await mute.release(tokens[1], 0)).toEqual(['released']);

  expect((await bench.state()).lock).toBe(tokens[0]);
  expect(await bench.waiting()).toEqual([waiting]);
  expect(await third.heard()).toEqual([]);
  const fresh = asPermit(third.token());
  admitted(await bench.recheck(waiting, fresh, 0), fresh);
});

it('the key ends with the last of its holders, also if the one with the longest lease has gone', async () => {
  const bench = newBench();
  const [short, long] = [
    asPermit((await bench.peer()).token()),
    asPermit((await bench.peer()).token()),
  ];
  admitted(await bench.acquire(short), short);
  admitted(await bench.acquire(long, { leaseMs: 20 * LEASE_MS }), long);
  expect(await bench.lockLifeMs()).toBeGreaterThan(10 * LEASE_MS);

  expect(await bench.release(long, 0)).toEqual(['released']);

  expect((await bench.state()).lock).toBe(short);
  expectLife(await bench.lockLifeMs(), LEASE_MS);
});

it.each([asPermit, (token: string) => `${token}s`])(
  'a key that lasts longer than its holders is free when the last of them goes (%#)',
  async (shared) => {
    const bench = newBench();
    const tokens = [shared((await bench.peer()).token()), shared((await bench.peer()).token())];
    for (const token of tokens) admitted(await bench.acquire(token), token);
    await bench.redis.pexpire(bench.lock, 5 * LEASE_MS); // as after many writes, each a little late

    expect(await bench.release(tokens[0] as string, 0)).toEqual(['released']);
    await bench.redis.pexpire(bench.lock, 5 * LEASE_MS);
    expect(await bench.release(tokens[1] as string, 0)).toEqual(['released']);

    expect((await bench.state()).lock).toBeNull();
  },
);

it('a token that another one begins with, or ends with, has a permit of its own', async () => {
  const bench = newBench();
  const peer = await bench.peer();
  const token = asPermit(peer.token(), 3);
  const [longer, labelled] = [
    `${token}:StockService.take`,
    `${asPermit(peer.token(), 3)}:of:${token}`,
  ];
  for (const each of [longer, labelled]) admitted(await bench.acquire(each), each);

  expect(await bench.renew(token, 0)).toEqual([]);
  expect(await bench.release(token, 0)).toEqual(['lost']);
  expect(await bench.renew(longer, 0)).not.toEqual([]);
  admitted(await bench.acquire(token), token);
  expect(await bench.release(token, 0)).toEqual(['released']);
  expect(holders((await bench.state()).lock)).toEqual([`0:${longer}`, `1:${labelled}`]);
});

describe('a value of another client', () => {
  it.each([
    'permits ',
    'permits 3',
    'permits 99999999999999/0:theirs',
    'permits 99999999999999:abc:1p1/2',
    'abc:1p1/2',
  ])('is no permit, however it looks: %s', async (value) => {
    const bench = newBench();
    await expectNotOurs(bench, value, asPermit((await bench.peer()).token()));
  });
});

it('a permit with its lock key alone, while its slot moves, is prolonged and given back alone', async () => {
  const { bench, tokens } = await fullBench();
  const alone = (script: typeof shortRenewScript, ...args: (string | number)[]) =>
    runScript(bench.redis, script, [bench.lock], args);
  const stranger = asPermit(bench.deadToken());

  expect(await alone(shortRenewScript, stranger, 10 * LEASE_MS)).toEqual([[]]);
  expect(await alone(shortReleaseScript, stranger, 0)).toBe('lost');
  expect(await alone(shortRenewScript, tokens[1], 10 * LEASE_MS)).toEqual([[0, 0]]);
  expect(await bench.lockLifeMs()).toBeGreaterThan(5 * LEASE_MS);
  expect(await alone(shortReleaseScript, tokens[0], 0)).toBe('released');
  expect(await alone(shortReleaseScript, tokens[0], 0)).toBe('lost');
  expect(holders(await bench.redis.get(bench.lock))).toEqual([`1:${tokens[1]}`]);
  expect(await alone(shortReleaseScript, tokens[1], 0)).toBe('released');
  expect(await bench.redis.exists(bench.lock)).toBe(0);
});

it('permits with their lock key alone are prolonged together, and written once', async () => {
  const own = openAdmin((await startSmallRedis()).url);
  const bench = new ScriptBench(own);
  const many = Array.from({ length: 5 }, () => asPermit(bench.deadToken(), 50));
  for (const token of many) admitted(await bench.acquire(token), token);
  const before = holders(await own.get(bench.lock));
  const stranger = asPermit(bench.deadToken(), 50);
  const asked = [...many.slice(0, 2), stranger, ...many.slice(2, 4)];
  const written = await setsOf(own);

  const leases = [2, 3, 4, 6, 5];
  const longer = asked.flatMap((token, i) => [token, (leases[i] as number) * LEASE_MS]);
  const replies = await runScript(own, shortRenewScript, [bench.lock], longer);

  expect(replies).toEqual([[0, 0], [0, 0], [], [0, 0], [0, 0]]);
  expect((await setsOf(own)) - written).toBe(1);
  const value = (await own.get(bench.lock)) as string;
  expect(holders(value)).toEqual(before);
  const [seconds, micros] = await own.time();
  const nowMs = Number(seconds) * 1_000 + Number(micros) / 1_000;
  const ends = Array.from(value.matchAll(/ (\d+)\//g), ([, end]) => Number(end) - nowMs);
  [2, 3, 6, 5, 1].forEach((each, i) => expectLife(ends[i] as number, each * LEASE_MS));
  expectLife(await own.pttl(bench.lock), 6 * LEASE_MS);
});

it('permits of one key that are prolonged together are written once, and no other key waits for them', async () => {
  const own = openAdmin((await startSmallRedis()).url);
  const [bench, other] = [new ScriptBench(own), new ScriptBench(own)];
  const many = Array.from({ length: 40 }, () => asPermit(bench.deadToken(), 50));
  for (const token of many) admitted(await bench.acquire(token), token);
  const [alone, stranger] = [other.deadToken(), asPermit(bench.deadToken(), 50)];
  admitted(await other.acquire(alone), alone);
  const before = holders(await own.get(bench.lock));
  const written = await setsOf(own);

  const asked = [...many.slice(0, 20), stranger, alone, ...many.slice(20)];
  const keys = asked
    .flatMap((token) => (token === alone ? other : bench))
    .flatMap(({ lock, queue }) => [lock, queue]);
  const longer = asked.flatMap((token) => [token, 2 * LEASE_MS]);
  expect(await runScript(own, bench.scripts.prolong, keys, longer)).toEqual([41, [21]]);

  expect((await setsOf(own)) - written).toBe(1);
  const value = (await own.get(bench.lock)) as string;
  expect(holders(value)).toEqual(before);
  const [seconds, micros] = await own.time();
  const nowMs = Number(seconds) * 1_000 + Number(micros) / 1_000;
  for (const [, end] of value.matchAll(/ (\d+)\//g)) expectLife(Number(end) - nowMs, 2 * LEASE_MS);
  for (const { lock } of [bench, other]) expectLife(await own.pttl(lock), 2 * LEASE_MS);
});
