/** Readers in trouble: what the contract of all stores cannot do to a key. */
import { describe, expect, it } from '@jest/globals';
import { shortReleaseScript } from '../../../libs/nestjs-locked/src/redis/scripts/short-release.lua.js';
import { shortRenewScript } from '../../../libs/nestjs-locked/src/redis/scripts/short-renew.lua.js';
import { openAdmin } from '../../support/open-locks.js';
import { runScript } from '../../support/run-script.js';
import { ACCEPT_MS, LEASE_MS, ScriptBench } from '../../support/script-bench.js';
import { expectLife, granted, queued } from '../../support/script-replies.js';
import { fillMemory, startSmallRedis } from '../../support/small-redis.js';
import { useScripts } from '../../support/use-scripts.js';
import { expectNotOurs } from '../../support/value-of-others.js';

const { newBench, contendedBench, connectAs } = useScripts();

const asReader = (token: string): string => `${token}s`;

/** Two processes that read the key. */
async function readBench(bench = newBench()) {
  const [first, second] = [await bench.peer(), await bench.peer()];
  const tokens = [asReader(first.token()), asReader(second.token())] as const;
  for (const token of tokens) granted(await bench.acquire(token), token);
  return { bench, first, second, tokens };
}

/** The same, and a writer and a reader that wait, in this order. */
async function crowdedBench(bench = newBench()) {
  const read = await readBench(bench);
  const [writer, reader] = [await bench.peer(), await bench.peer()];
  const waiting = { writes: writer.token(), reads: asReader(reader.token()) };
  const { score } = queued(await bench.acquire(waiting.writes), waiting.writes);
  expect((await bench.acquire(waiting.reads)).slice(0, 2)).toEqual(['queued', waiting.reads]);
  return { ...read, writer, reader, waiting, score };
}

const readersOf = (value: string | null): string[] =>
  (value ?? '')
    .split(' ')
    .slice(1)
    .map((it) => it.slice(it.indexOf(':') + 1));

describe('a writer that waits', () => {
  it('is told when the lease of the last reader ends, if the one that would have read longest goes', async () => {
    const { bench, tokens, writer, waiting } = await crowdedBench();
    const longer = [tokens[0], 4 * LEASE_MS];
    const { prolong } = bench.scripts;
    await runScript(bench.redis, prolong, [bench.lock, bench.queue], longer);
    await writer.heard();

    expect(await bench.release(tokens[0], 0)).toEqual(['released']);
    const [told = '', ...more] = await writer.heard();
    const [kind, token, ms] = told.split(' ');
    expect([kind, token]).toEqual(['h', waiting.writes]);
    expectLife(Number(ms), LEASE_MS);
    expect(more).toEqual([]);
  });

  it('is told nothing if the others read as long as before', async () => {
    const { bench, tokens, writer } = await crowdedBench();
    const longer = [tokens[1], 4 * LEASE_MS];
    const { prolong } = bench.scripts;
    await runScript(bench.redis, prolong, [bench.lock, bench.queue], longer);
    await writer.heard();

    expect(await bench.release(tokens[0], 0)).toEqual(['released']);
    expect(await writer.heard()).toEqual([]);
  });
});

describe('readers on a server out of memory', () => {
  it('are renewed, leave, and are let in by a writer that goes', async () => {
    const full = openAdmin((await startSmallRedis()).url);
    const { bench, tokens, reader, waiting } = await crowdedBench(new ScriptBench(full));
    await fillMemory(full);

    expect(await bench.renew(tokens[0], 0)).not.toEqual([]);
    const { prolong } = bench.scripts;
    const longer = [tokens[0], LEASE_MS];
    expect(await runScript(full, prolong, [bench.lock, bench.queue], longer)).toEqual([1, [1, 2]]);
    expect(await runScript(full, shortRenewScript, [bench.lock], longer)).toEqual([[0, 0]]);
    expect(await bench.leave(waiting.writes)).toEqual(['left']);
    expect(await reader.heard()).toEqual([expect.stringMatching(`^g ${waiting.reads} `)]);
    expect(readersOf(await full.get(bench.lock))).toEqual([...tokens, waiting.reads]);
    expect(await bench.release(tokens[0], 0)).toEqual(['released']);
    expect(await runScript(full, shortReleaseScript, [bench.lock], [waiting.reads, 0])).toBe(
      'released',
    );
    expect(await full.get(bench.lock)).toBe(tokens[1]);
    await expect(bench.acquire(asReader(bench.deadToken()))).rejects.toThrow(/OOM/);
    expect(await bench.release(tokens[1], 0)).toEqual(['released']);
    expect(await bench.state()).toMatchObject({ lock: null, queue: [] });
  });

  it('are let in by the release of a writer', async () => {
    const full = openAdmin((await startSmallRedis()).url);
    const bench = new ScriptBench(full);
    const token = bench.deadToken();
    const { fence } = granted(await bench.acquire(token), token);
    const peers = [await bench.peer(), await bench.peer()];
    const tokens = peers.map((peer) => asReader(peer.token()));
    for (const each of tokens) queued(await bench.acquire(each), each);
    await fillMemory(full);

    expect(await bench.release(token, fence)).toEqual(['released']);
    expect(readersOf(await full.get(bench.lock))).toEqual(tokens);
    for (const peer of peers) expect(await peer.heard()).toEqual([expect.stringMatching(/^g /)]);
  });
});

it('without the right to ask who listens, a release lets in all readers, the dead with a short lease', async () => {
  const { bench, token, fence } = await contendedBench();
  await bench.redis.del(bench.queue);
  const [first, dead] = [asReader((await bench.peer()).token()), asReader(bench.deadToken())];
  await bench.enqueue(first, dead);
  const blind = bench.as(await connectAs('&*', '+@all', '-pubsub'));

  expect(await blind.release(token, fence)).toEqual(['released']);

  expect(readersOf((await bench.state()).lock)).toEqual([first, dead]);
  expectLife(await bench.lockLifeMs(), ACCEPT_MS);
});

describe('without the right to publish', () => {
  it('readers that cannot be told keep their places, and the others read on', async () => {
    const { bench, tokens, reader, waiting } = await crowdedBench();
    const mute = bench.as(await connectAs('+@all', 'resetchannels'));

    expect(await mute.leave(waiting.writes)).toEqual(['left']);

    expect(readersOf((await bench.state()).lock)).toEqual([...tokens]);
    expect(await bench.waiting()).toEqual([waiting.reads]);
    expect(await reader.heard()).toEqual([]);
    const fresh = asReader(reader.token());
    granted(await bench.recheck(waiting.reads, fresh, 0), fresh);
  });

  it('the key is free when no reader could be told', async () => {
    const { bench, token, fence } = await contendedBench();
    await bench.redis.del(bench.queue);
    const tokens = [asReader((await bench.peer()).token()), asReader((await bench.peer()).token())];
    await bench.enqueue(...tokens);
    const mute = bench.as(await connectAs('+@all', 'resetchannels'));

    expect(await mute.release(token, fence)).toEqual(['released']);

    expect((await bench.state()).lock).toBeNull();
    expect(await bench.waiting()).toEqual(tokens);
  });
});

it('a reader that goes lets in those whom only a dead writer kept out, although others read on', async () => {
  const { bench, tokens } = await readBench();
  const peer = await bench.peer();
  const waiting = asReader(peer.token());
  await bench.enqueue(bench.deadToken(), waiting);

  expect(await bench.release(tokens[0], 0)).toEqual(['released']);

  expect(readersOf((await bench.state()).lock)).toEqual([tokens[1], waiting]);
  expect(await peer.heard()).toEqual([expect.stringMatching(`^g ${waiting} `)]);
});

describe('a value of another client', () => {
  const foreignReader = 'abc:1s';
  it.each([
    'shared ',
    'shared memory',
    'shared 99999999999999:theirs',
    'shared 99999999999999:abc:x',
    foreignReader,
  ])('is nobody who reads, however it looks: %s', async (value) => {
    const bench = newBench();
    await expectNotOurs(bench, value, asReader((await bench.peer()).token()));
  });

  it('that is written over readers ends their leases, and is not touched by them', async () => {
    const { bench, tokens } = await readBench();
    await bench.redis.set(bench.lock, 'theirs', 'PX', LEASE_MS);
    for (const token of tokens) {
      expect(await bench.renew(token, 0)).toEqual([]);
      expect(await bench.release(token, 1)).toEqual(['lost']);
      expect(await bench.leave(token)).toEqual(['left']);
    }
    expect(await bench.redis.get(bench.lock)).toBe('theirs');
  });
});

describe('a reader with its lock key alone, while its slot moves', () => {
  it('prolongs and releases its own lease, and no other', async () => {
    const { bench, tokens } = await readBench();
    const alone = (script: typeof shortRenewScript, ...args: (string | number)[]) =>
      runScript(bench.redis, script, [bench.lock], args);
    const stranger = asReader(bench.deadToken());

    expect(await alone(shortRenewScript, stranger, 10 * LEASE_MS)).toEqual([[]]);
    expect(await alone(shortReleaseScript, stranger, 0)).toBe('lost');
    expect(await alone(shortRenewScript, tokens[0], 10 * LEASE_MS)).toEqual([[0, 0]]);
    expect(await alone(shortRenewScript, tokens[0], 1_000)).toEqual([[0, 0]]); // not shortened
    expect(await bench.lockLifeMs()).toBeGreaterThan(5 * LEASE_MS);
    expect(await alone(shortReleaseScript, tokens[0], 0)).toBe('released');
    expect(await alone(shortReleaseScript, tokens[0], 0)).toBe('lost');
    expect(await bench.redis.get(bench.lock)).toBe(tokens[1]);
    expectLife(await bench.lockLifeMs(), LEASE_MS);
    expect(await alone(shortReleaseScript, tokens[1], 0)).toBe('released');
    expect(await bench.redis.exists(bench.lock)).toBe(0);
  });
});
