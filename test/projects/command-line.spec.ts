import { describe, expect, it } from '@jest/globals';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { shownDuration } from '../../libs/nestjs-locked/src/cli/duration.js';
import { shownText, widthOf } from '../../libs/nestjs-locked/src/cli/shown-text.js';
import { tableOf } from '../../libs/nestjs-locked/src/cli/table.js';
import type { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import { lockKey } from '../../libs/nestjs-locked/src/core/keys/lock-key.js';
import { LIBRARY } from '../api/entry-points.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { useRedisCluster } from '../support/own-cluster.js';
import { startRedisServer, useRedisServer } from '../support/own-redis.js';
import { type CommandResult, runCommand } from '../support/run-command.js';
import { uniqueKey } from '../support/unique-key.js';

const PROGRAM = join(LIBRARY, 'dist/cli/main.js');
const PROCESS = 'f'.repeat(32);

function run(url: string | undefined, ...args: string[]): Promise<CommandResult> {
  const redis = url === undefined ? [] : ['--redis', url];
  return runCommand(process.execPath, [PROGRAM, ...args, ...redis], LIBRARY);
}

function json(text: string): unknown[] {
  return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as unknown]));
}

/** Two calls that wait for each other, until the signal aborts. */
async function waitForEachOther(
  engines: readonly LockEngine[],
  keys: readonly [string, string],
  signal: AbortSignal,
): Promise<void> {
  const gate = makeGate();
  let holding = 0;
  const calls = keys.map((key, i) =>
    (engines[i % engines.length] as LockEngine).withLock(key, {}, async () => {
      holding++;
      if (holding === keys.length) gate.open();
      await gate.opened;
      const wanted = keys[1 - i] as string;
      const options = { signal, label: `inside ${key}`, waitMs: 60_000 };
      await (engines[i % engines.length] as LockEngine).withLock(wanted, options, () => {});
    }),
  );
  await Promise.allSettled(calls);
}

describe('npx nestjs-locked', () => {
  const redis = useRedisServer();

  it('shows who holds what, the most wanted lock first', async () => {
    const { engine } = await openLocks(redis.url);
    const { engine: other } = await openLocks(redis.url);
    const before = Date.now();
    await engine.acquire('order:1');
    const lock = await engine.acquire('order:2', { label: 'OrderService.place' });
    const waiting = other.acquire('order:2');
    const { value: holder } = await engine
      .inspect('order:2')
      .then((info) => ({ value: info?.holder }));
    await eventually(async () => expect((await engine.inspect('order:2'))?.waiters).toBe(1));

    const table = await run(redis.url, 'ls', 'order:*');
    expect([table.code, table.stderr]).toEqual([0, '']);
    const [names, first, second, ...rest] = table.stdout
      .split('\n')
      .map((line) => line.split(/ {2,}/));
    expect(names).toEqual(['KEY', 'HOLDER', 'CALL', 'SINCE', 'FOR', 'LEASE', 'WAITING']);
    const process = `${holder?.host} pid ${holder?.pid}`;
    expect(first?.slice(0, 3)).toEqual(['order:2', process, 'OrderService.place']);
    expect(first?.slice(3)).toEqual([
      expect.stringMatching(/^\d\d:\d\d:\d\dZ$/),
      expect.stringMatching(/^\d+\.\ds$/),
      expect.stringMatching(/^[12]\d\.\ds$/),
      '1',
    ]);
    expect(second?.slice(0, 2)).toEqual(['order:1', process]);
    expect(rest).toEqual([['']]);

    const { stdout } = await run(redis.url, 'ls', 'order:2', '--json');
    const [shown, ...others] = json(stdout) as Record<string, unknown>[];
    expect(others).toEqual([]);
    expect(shown).toEqual({
      key: 'order:2',
      state: 'held',
      mode: 'exclusive',
      leaseId: (await engine.inspect('order:2'))?.leaseId,
      holder,
      holders: [holder],
      since: expect.any(String),
      remainingMs: expect.any(Number),
      waiters: 1,
    });
    const since = Date.parse(String(shown?.['since']));
    expect(since).toBeGreaterThanOrEqual(before - 1);
    expect(since).toBeLessThanOrEqual(Date.now());

    await lock.release();
    await (await waiting).release();
    expect(await run(redis.url, 'ls', 'order:2')).toMatchObject({ code: 0, stdout: '' });
  });

  it('inspects one lock; 1 means that nobody holds it', async () => {
    const { engine } = await openLocks(redis.url);
    const key = uniqueKey('inspected');
    expect(await run(redis.url, 'inspect', key, '--json')).toMatchObject({
      code: 1,
      stdout: 'null\n',
    });
    expect(await run(redis.url, 'inspect', `lock:${key}`)).toMatchObject({
      code: 1,
      stderr: `Nobody holds lock:${key}; write keys without the keyPrefix: ${key}.\n`,
    });
    await engine.acquire(key, { label: 'ReportService.write' });
    const { code, stdout } = await run(redis.url, 'inspect', key);
    expect(code).toBe(0);
    expect(stdout).toContain(`key      ${key}\n`);
    expect(stdout).toContain('call     ReportService.write\n');
    expect(stdout).toContain('waiting  0 processes\n');
  });

  it('inspects the call that has the lock now, which its process says', async () => {
    const { engine } = await openLocks(redis.url);
    const key = uniqueKey('handed on');
    const first = await engine.acquire(key, { label: 'First.call' });
    const second = engine.acquire(key, { label: 'Second.call' });
    await first.release();
    const lock = await second;
    const seen = await engine.inspect(key);
    const { code, stdout, stderr } = await run(redis.url, 'inspect', key, '--json');
    expect([code, stderr]).toEqual([0, '']);
    expect(json(stdout)).toMatchObject([
      {
        holder: { label: 'Second.call' },
        since: seen?.since?.toISOString(),
        leaseId: seen?.leaseId,
      },
    ]);
    const asked = await run(redis.url, 'release', key);
    expect(asked.stdout).toContain('call     Second.call\n');
    await lock.release();
  });

  it('names all readers of a lock, with the calls that have it now', async () => {
    const opened = await Promise.all([1, 2, 3].map(() => openLocks(redis.url)));
    const key = uniqueKey('read');
    for (const [i, { engine }] of opened.entries()) {
      const label = `Report.of${i}`;
      const first = await engine.acquire(key, { mode: 'shared', label: 'Before.call' });
      await engine.acquire(key, { mode: 'shared', label });
      await first.release();
      if (i === 0) {
        const { stdout } = await run(redis.url, 'ls', key);
        expect(stdout).toContain(`pid ${process.pid}, reads`);
      }
    }
    const table = await run(redis.url, 'ls', key);
    expect(table.stdout.split('\n')[1]?.split(/ {2,}/).slice(0, 2)).toEqual([key, '3 readers']);
    const seen = await run(redis.url, 'inspect', key);
    expect([seen.code, seen.stderr]).toEqual([0, '']);
    expect(seen.stdout).toContain('holder   3 readers\nmode     shared\nsince');
    const readers = seen.stdout.split('\n').filter((line) => line.startsWith('reader '));
    expect(readers).toHaveLength(3);
    for (const [i, line] of readers.entries())
      expect(line).toContain(`pid ${process.pid}, Report.of${i}`);
    const [asJson] = json((await run(redis.url, 'inspect', key, '--json')).stdout);
    const holders = opened.map(({ store }, i) =>
      expect.objectContaining({ processId: store.processId, label: `Report.of${i}` }),
    );
    expect(asJson).toMatchObject({ mode: 'shared', holder: holders[0], holders });
    const asked = await run(redis.url, 'release', key);
    expect(asked.stderr).toContain('be it one call, or all readers or permits');
    const released = await run(redis.url, 'release', key, '--yes');
    expect(released.stdout).toContain('held by 3 readers. The next');
  });

  it('names all permits of a key, and takes them from nobody else than it has named', async () => {
    const [one, other] = await Promise.all([1, 2].map(() => openLocks(redis.url)));
    const key = uniqueKey('permits');
    const first = await one?.engine.acquire(key, { permits: 3, label: 'First' });
    await other?.engine.acquire(key, { permits: 3, weight: 2, label: 'Second' });
    const seen = await run(redis.url, 'inspect', key);
    expect([seen.code, seen.stderr]).toEqual([0, '']);
    expect(seen.stdout).toContain('holder   2 permits\nmode     permit\nsince');
    const permits = seen.stdout.split('\n').filter((line) => line.startsWith('permit '));
    expect(permits).toEqual([
      expect.stringContaining(', First, slot 0'),
      expect.stringContaining(', Second, slot 1, weight 2'),
    ]);
    const [, leaseId = ''] = /^lease id (.+)$/m.exec(seen.stdout) ?? [];
    await first?.release();
    const refused = await run(redis.url, 'release', key, '--yes', '--lease', leaseId);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('is over')]);
    const [left] = json((await run(redis.url, 'inspect', key, '--json')).stdout);
    expect(left).toMatchObject({ mode: 'permit', holders: [{ label: 'Second', slot: 1 }] });
    const again = String((left as { leaseId: string }).leaseId);
    const released = await run(redis.url, 'release', key, '--yes', '--lease', again);
    expect(released.stdout).toContain('with a permit, Second. The next');
  });

  it('shows a lock that was detached, of which no process says anything', async () => {
    const [one, other] = await Promise.all([1, 2].map(() => openLocks(redis.url)));
    const key = uniqueKey('detached');
    const lock = await one?.engine.acquire(key, { label: 'Gone' });
    const text = (await lock?.detach({ forMs: 60_000 })) as string;
    const waiting = other?.engine.acquire(key, { waitMs: 60_000 });
    const seen = await run(redis.url, 'inspect', key);
    expect(seen.stdout).toContain('call     Gone\n');
    expect(seen.stderr).toContain('the process has not said');
    const graph = await run(redis.url, 'graph');
    expect([graph.code, graph.stdout]).toEqual([0, '']);
    const [, leaseId = ''] = /^lease id (.+)$/m.exec(seen.stdout) ?? [];
    expect((await run(redis.url, 'release', key, '--yes', '--lease', leaseId)).code).toBe(0);
    await (await waiting)?.release();
    await expect(other?.engine.adopt(text, {})).rejects.toMatchObject({
      code: 'LOCK_NOT_ADOPTED',
    });
  });

  it('names the first hundred of very many readers', async () => {
    const { admin, url } = redis;
    const key = 'read:by:many';
    const ends = Date.now() + 60_000;
    const tokens = Array.from({ length: 120 }, (_, i) => {
      return `${ends}:${String(i).padStart(32, '0')}:1796000000000000s:Report.make`;
    });
    await admin.set(`lock:{${key}}`, `shared ${tokens.join(' ')}`, 'PX', 60_000);
    expect((await run(url, 'ls', key)).stdout).toContain('120 readers');
    const { stdout } = await run(url, 'inspect', key);
    expect(stdout.split('\n').filter((line) => line.startsWith('reader '))).toHaveLength(101);
    expect(stdout).toContain('reader   and 20 more\n');
    await admin.del(`lock:{${key}}`);
  });

  it('inspects what Redis says if the process does not answer or may not be asked, and says so', async () => {
    const { admin, port, url } = redis;
    const key = 'unanswered:1';
    await admin.set(`lock:{${key}}`, `${PROCESS}:1796000000000000:Dead.call`, 'PX', 60_000);
    const text =
      'The call and its time are those for which the process got the lease, and another call may have it now: ';
    const silent = await run(url, 'inspect', key);
    expect([silent.code, silent.stderr]).toEqual([0, `${text}the process has not said.\n`]);
    expect(silent.stdout).toContain('call     Dead.call\n');
    const rights = ['%R~lock:*', '+get', '+pttl', '+zcard', '+scan'];
    await admin.call('ACL', 'SETUSER', 'reader', 'on', '>pw', ...rights);
    const refused = await run(`redis://reader:pw@127.0.0.1:${port}`, 'inspect', key, '--json');
    expect([refused.code, json(refused.stdout)]).toEqual([
      0,
      [
        expect.objectContaining({
          holder: expect.objectContaining({ label: 'Dead.call' }) as unknown,
        }),
      ],
    ]);
    expect(refused.stderr).toContain(text);
    expect(refused.stderr).toContain('NOPERM');
    await admin.set(`lock:{${key}}`, 'of another client', 'PX', 60_000);
    expect(await run(url, 'inspect', key)).toMatchObject({ code: 0, stderr: '' });
    await admin.del(`lock:{${key}}`);
  });

  it('releases a lock with --yes only: its signal aborts, and the next caller enters', async () => {
    const { engine } = await openLocks(redis.url);
    const { engine: other } = await openLocks(redis.url);
    const key = uniqueKey('released');
    const lock = await engine.acquire(key, { label: 'StockService.take' });
    const waiting = other.acquire(key);
    const asked = await run(redis.url, 'release', key);
    expect([asked.code, asked.stderr]).toEqual([
      1,
      expect.stringContaining('Nothing was released'),
    ]);
    expect(asked.stdout).toContain('StockService.take');
    expect(lock.signal.aborted).toBe(false);

    const done = await run(redis.url, 'release', key, '--yes');
    expect([done.code, done.stderr]).toEqual([0, '']);
    expect(done.stdout).toContain(`Released ${key}, held by `);
    expect(done.stdout).toContain('StockService.take');
    await eventually(() => expect(lock.signal.aborted).toBe(true));
    await (await waiting).release();

    expect((await run(redis.url, 'release', key, '--yes')).code).toBe(1);
    expect((await run(redis.url, 'release', key)).code).toBe(1);
  });

  it('shows who waits for whom, and that it is a deadlock', async () => {
    const [{ engine: one }, { engine: other }] = await Promise.all([
      openLocks(redis.url),
      openLocks(redis.url),
    ]);
    const nothing = await run(redis.url, 'graph', 'ring:*');
    expect([nothing.code, nothing.stdout]).toEqual([0, '']);
    expect(nothing.stderr).toContain('No call that holds a wanted lock waits for another one');

    const end = new AbortController();
    const ring = waitForEachOther([one, other], ['ring:a', 'ring:b'], end.signal);
    await eventually(async () => expect((await one.inspect('ring:b'))?.waiters).toBe(1));
    // At once, because the deadlock is found and ended after a few seconds.
    const [{ code, stdout, stderr }, asJson] = await Promise.all([
      run(redis.url, 'graph', 'ring:*'),
      run(redis.url, 'graph', '--json'),
    ]);
    expect([code, stderr]).toEqual([0, '']);
    const [names, ...rows] = stdout.trim().split('\n');
    expect(names?.split(/ {2,}/)).toEqual(['CALL', 'PROCESS', 'HOLDS', 'WAITS FOR', 'FOR']);
    expect(rows).toHaveLength(2);
    const process_ = `\\S+ pid ${process.pid}`;
    for (const [own, wanted] of [
      ['ring:a', 'ring:b'],
      ['ring:b', 'ring:a'],
    ])
      expect(stdout).toMatch(
        new RegExp(`inside ${own} +${process_} +${own} +${wanted} +\\d+\\.\\ds +deadlock`),
      );
    const shown = json(asJson.stdout);
    expect(shown).toHaveLength(2);
    expect(shown).toContainEqual(
      expect.objectContaining({ key: 'ring:b', holds: ['ring:a'], isDeadlock: true }),
    );
    end.abort();
    await ring;
  });

  it('says that a graph is incomplete if a process does not answer, and fails without the rights', async () => {
    const { admin, port, url } = redis;
    await admin.set('lock:{silent:1}', `${PROCESS}:1796000000000000:Dead.call`, 'PX', 60_000);
    await admin.zadd('lock:{silent:1}:queue', 1, `${'e'.repeat(32)}:1796000000000001`);
    const silent = await run(url, 'graph', 'silent:*');
    expect([silent.code, silent.stdout]).toEqual([0, '']);
    expect(silent.stderr).toContain(
      'Unknown for a lock that others want: the process has not answered',
    );
    const rights = ['%R~lock:*', '+get', '+pttl', '+zcard', '+scan'];
    await admin.call('ACL', 'SETUSER', 'reader', 'on', '>pw', ...rights);
    const refused = await run(`redis://reader:pw@127.0.0.1:${port}`, 'graph', 'silent:*');
    expect([refused.code, refused.stdout]).toEqual([3, '']);
    expect(refused.stderr).toContain('NOPERM');
    await admin.del('lock:{silent:1}', 'lock:{silent:1}:queue');
  });

  it('releases only from the lease that was seen, if it is named', async () => {
    const { engine } = await openLocks(redis.url);
    const key = uniqueKey('seen');
    const first = await engine.acquire(key);
    const seen = await run(redis.url, 'inspect', key);
    const [, leaseId = ''] = /^lease id (\w+)$/m.exec(seen.stdout) ?? [];
    expect(leaseId).toBe((await engine.inspect(key))?.leaseId);
    await first.release();
    const second = await engine.acquire(key);
    const args = ['release', key, '--yes', '--lease', leaseId];
    expect(await run(redis.url, ...args)).toMatchObject({
      code: 1,
      stderr: `That lease of ${key} is over; nothing was released.\n`,
    });
    expect(second.signal.aborted).toBe(false);
    const now = (await engine.inspect(key))?.leaseId ?? '';
    expect((await run(redis.url, 'release', key, '--yes', '--lease', now)).code).toBe(0);
    await eventually(() => expect(second.signal.aborted).toBe(true));
    await eventually(async () => expect(await engine.inspect(key)).toBeNull());
  });

  it('leaves nothing in Redis, and only reads it except to release', async () => {
    const { admin, url } = redis;
    await admin.set('lock:{order:7}', `${PROCESS}:1796000000000000`);
    const [names, clients] = [await admin.keys('*'), await admin.client('LIST')];
    await admin.config('RESETSTAT');
    for (const args of [['ls'], ['inspect', 'order:7'], ['release', 'order:7']])
      await run(url, ...args);
    const stats = String(await admin.info('commandstats'));
    const used = [...stats.matchAll(/cmdstat_([\w|]+)/g)].map(([, name = '']) => name);
    const own = ['keys', 'config|resetstat', 'info', 'client|list'];
    const ofConnecting = ['hello', 'client|setinfo'];
    const others = used.filter((name) => !own.includes(name) && !ofConnecting.includes(name));
    const asking = ['evalsha', 'publish', 'subscribe'];
    expect(others.sort()).toEqual(['get', 'pttl', 'scan', 'zcard', ...asking].sort());
    // Keys of earlier tests may expire meanwhile.
    expect((await admin.keys('*')).filter((name) => !names.includes(name))).toEqual([]);
    const lines = (text: unknown): number => String(text).trim().split('\n').length;
    expect(lines(await admin.client('LIST'))).toBeLessThanOrEqual(lines(clients));
    await admin.del('lock:{order:7}');
  });

  it('shows everything to a user who may only read, who cannot release', async () => {
    const { admin, port } = redis;
    const rights = ['%R~lock:*', '+get', '+pttl', '+zcard', '+scan'];
    await admin.call('ACL', 'SETUSER', 'reader', 'on', '>pw', ...rights);
    await admin.set('lock:{order:8}', `${PROCESS}:1796000000000000:OrderService.place`);
    await admin.set(`lock:process:${PROCESS}`, JSON.stringify({ host: 'app-3', pid: 42 }));
    const url = `redis://reader:pw@127.0.0.1:${port}`;
    const listed = await run(url, 'ls', 'order:8');
    expect([listed.code, listed.stderr]).toEqual([0, '']);
    expect(listed.stdout).toMatch(/order:8 +app-3 pid 42 +OrderService\.place .* no end +0\n/);
    const { code, stdout, stderr } = await run(url, 'release', 'order:8', '--yes');
    expect([code, stdout]).toEqual([3, '']);
    expect(stderr).toMatch(/^Cannot revoke 'order:8': NOPERM/);
    expect(await admin.exists('lock:{order:8}')).toBe(1);
    await admin.del('lock:{order:8}', `lock:process:${PROCESS}`);
  });

  it('reads another keyPrefix, and that of the connection', async () => {
    const { admin, url } = redis;
    await admin.set('app:mine:{order:9}', `${PROCESS}:1796000000000000:first`);
    await admin.zadd('app:mine:{order:9}:queue', 1, 'a', 2, 'b');
    const { stdout } = await run(`${url}?keyPrefix=app:`, 'ls', '--prefix', 'mine:', '--json');
    expect(json(stdout)).toEqual([
      expect.objectContaining({ key: 'order:9', waiters: 2, remainingMs: null }),
    ]);
    const args = ['release', 'order:9', '--yes', '--prefix', 'mine:'];
    expect((await run(`${url}?keyPrefix=app:`, ...args)).code).toBe(0);
    expect(await admin.get('app:mine:{order:9}')).toMatch(/^revoked:/);
    await admin.del('app:mine:{order:9}', 'app:mine:{order:9}:queue');
  });

  it('shows hostile texts on one line each, without their effects', async () => {
    const { admin, url } = redis;
    const label = encodeURIComponent('a\u001b[2J\r\nb\u202ec\u009b1m');
    const hosts = ['h\u001b]0;x\u0007', 'not JSON', '[]'];
    const entries = [JSON.stringify({ host: hosts[0], pid: 1 }), hosts[1], hosts[2]];
    const keys = [...entries.keys()].map((i) => `hostile:${i}:日本\u202e語`);
    for (const [i, entry] of entries.entries()) {
      const process = String(i).repeat(32);
      await admin.set(`lock:{${keys[i]}}`, `${process}:1796000000000000:${label}`, 'PX', 60_000);
      await admin.set(`lock:process:${process}`, entry ?? '', 'PX', 60_000);
    }
    await admin.set('lock:{hostile:3}', `${PROCESS}:${'9'.repeat(30)}`, 'PX', 60_000);
    await admin.set('lock:{hostile:4}', '\u001b[31m', 'PX', 60_000);
    await admin.set('lock:{hostile:\n5}', 'x', 'PX', 60_000); // no key that a call can have
    await admin.hset('lock:{hostile:6}', 'a', 'b');
    await admin.set('lock:{hostile:6}:queue', 'x', 'PX', 60_000);
    const outputs = await Promise.all([
      run(url, 'ls', 'hostile:*'),
      run(url, 'ls', 'hostile:*', '--json'),
      run(url, 'inspect', keys[0] ?? ''),
      run(url, 'ls', '\u001b[31m{'),
      run(url, '\u001b[31m'),
    ]);
    outputs.push(await run(url, 'release', keys[0] ?? '', '--yes')); // the others show it as held
    await admin.del('lock:{hostile:6}');
    for (const { stdout, stderr } of outputs)
      expect(`${stdout}${stderr}`.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    const [table, listed] = outputs;
    expect(table?.stdout.split('\n')).toHaveLength(1 + 6 + 1);
    const shown = json(listed?.stdout ?? '') as { key: string; state: string; holder: unknown }[];
    expect(shown.map(({ key }) => key).sort()).toEqual(
      [...keys, 'hostile:3', 'hostile:4', 'hostile:6'].sort(),
    );
    expect(shown.find(({ key }) => key === keys[0])?.holder).toMatchObject({
      host: hosts[0],
      label: decodeURIComponent(label),
    });
    expect(shown.find(({ key }) => key === keys[1])?.holder).not.toHaveProperty('host');
  });

  it.each([
    [['lst'], "Unknown command 'lst': did you mean ls?"],
    [['delete'], "Unknown command 'delete': write one of ls, watch, inspect, graph, release"],
    [[], 'Write a command: ls, watch, inspect, graph, release'],
    [['inspect'], 'inspect needs a key'],
    [['ls', 'a', 'b'], 'ls takes one argument, and not 2'],
    [['ls', '--yes'], '--yes belongs to release'],
    [['inspect', 'a', '--lease', 'b'], '--lease belongs to release'],
    [['ls', '--all'], "Unknown option '--all': write one of --redis, --prefix, --json"],
    [['inspect', 'lock:{stock:1}'], "No key has '<', '{' or '}', as 'lock:{stock:1}' does"],
    [['release', 'stock:*', '--yes'], 'a key is no pattern'],
    [['ls', 'lock:*'], 'it begins with the keyPrefix'],
    [['ls', 'stock:{*}'], "no key has '<', '{' or '}'"],
    [['release', 'stock:undefined', '--yes'], "its part 'undefined'"],
    [['ls', '--prefix', '{a}'], 'Invalid option --prefix'],
  ])('refuses wrong use with 2: %j', async (args, message) => {
    const { code, stdout, stderr } = await run(redis.url, ...args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(message);
  });

  it('says which Redis is meant, and finds that in REDIS_URL', async () => {
    const args = [PROGRAM, 'ls', 'nothing:*'];
    const withUrl = (REDIS_URL: string): Promise<CommandResult> =>
      runCommand(process.execPath, args, LIBRARY, { REDIS_URL });
    expect(await withUrl(redis.url)).toMatchObject({
      code: 0,
      stderr: 'No lock is held that matches nothing:*, with --prefix lock:.\n',
    });
    const wrong = await withUrl('localhost:6379');
    expect([wrong.code, wrong.stderr]).toEqual([
      2,
      expect.stringContaining("write 'redis://localhost:6379'"),
    ]);
    const others = { ...process.env };
    delete others['REDIS_URL'];
    const unset = spawn(process.execPath, args, {
      env: others,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const [code, stderr] = await ended(unset);
    expect([code, stderr]).toEqual([2, expect.stringContaining('Set the variable REDIS_URL')]);
    const help = await run(undefined, '--help');
    expect([help.code, help.stderr]).toEqual([0, '']);
    expect(help.stdout).toMatch(/^Usage: [^]*Exit code: 0 done/);
  });

  it('says with 3 that Redis is away, is silent, or refuses the user', async () => {
    const server = await startRedisServer();
    expect(await run('redis://127.0.0.1:1', 'ls')).toMatchObject({
      code: 3,
      stderr:
        'Cannot connect to redis://127.0.0.1:1: connect ECONNREFUSED 127.0.0.1:1; check the URL, and that Redis runs\n',
    });
    const user = await run(`redis://somebody:secret@127.0.0.1:${server.port}`, 'ls');
    expect([user.code, user.stderr]).toEqual([
      3,
      expect.stringMatching(/WRONGPASS.*; check user and password$/m),
    ]);
    expect(user.stderr).not.toContain('secret');
    expect((await run(`${server.url}/99`, 'ls')).code).toBe(3);
    server.pause();
    const from = performance.now();
    const silent = await run(server.url, 'ls');
    server.resume();
    expect([silent.code, silent.stderr]).toEqual([
      3,
      expect.stringContaining('did not answer within 5000 ms'),
    ]);
    expect(performance.now() - from).toBeLessThan(15_000);
  });

  it('refuses a replica, which may be behind', async () => {
    const { port } = redis;
    const replica = await startRedisServer('--replicaof', '127.0.0.1', String(port));
    const { code, stderr } = await run(replica.url, 'ls');
    expect([code, stderr]).toEqual([
      3,
      expect.stringContaining(`is a replica, which may be behind`),
    ]);
  });

  it('watches: one line for each change, until Ctrl-C', async () => {
    const { engine } = await openLocks(redis.url);
    const [first, second] = [uniqueKey('watched'), uniqueKey('watched')];
    const lock = await engine.acquire(first, { label: 'first' });
    const child = spawn(process.execPath, [
      PROGRAM,
      'watch',
      'watched*',
      '--json',
      '--redis',
      redis.url,
    ]);
    afterTest(() => void child.kill('SIGKILL'));
    const changes = changesOf(child);
    await eventually(() => expect(changes()).toEqual([['held', first]]));
    await engine.acquire(second);
    await eventually(() => expect(changes().at(-1)).toEqual(['taken', second]));
    await lock.release();
    await eventually(() => expect(changes().at(-1)).toEqual(['freed', first]));
    child.kill('SIGINT');
    expect(await ended(child)).toEqual([0, '']);
    expect(changes()).toHaveLength(3);
  });

  it('watches on a terminal: a table that fits it, until Ctrl-C', async () => {
    const { engine } = await openLocks(redis.url);
    const long = lockKey`screen:${'x'.repeat(300)}`;
    for (const key of [long, ...Array.from({ length: 40 }, (_, i) => `screen:${i}`)])
      await engine.acquire(key, { label: 'ScreenService.draw' });
    const watch = `stty rows 20 cols 70; exec '${process.execPath}' '${PROGRAM}' watch 'screen:*' --redis ${redis.url}`;
    const child = spawn('script', ['-qec', watch, '/dev/null']);
    afterTest(() => void child.kill('SIGKILL'));
    let drawn = '';
    child.stdout.on('data', (data: Buffer) => (drawn += data.toString()));
    const tables = (): string[] => drawn.split('\u001b[1;1H').slice(1);
    await eventually(() => expect(tables().length).toBeGreaterThan(2));
    const lines = stripVTControlCharacters(tables()[0] ?? '')
      .split(/\r?\n/)
      .slice(0, -1);
    expect(lines).toHaveLength(19);
    expect(lines[0]).toContain('41 held');
    expect(lines.at(-1)).toBe('and 25 more');
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(70);
    child.stdin.write('\u0003');
    expect(await ended(child)).toEqual([0, '']);
  });

  it('ends without an error when its reader has seen enough', async () => {
    const program = `'${process.execPath}' '${PROGRAM}' watch --redis ${redis.url}; echo $? >&2`;
    await redis.admin.set('lock:{seen}', 'x');
    const shell = spawn('sh', ['-c', `(${program}) | head -1`], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const end = ended(shell);
    await redis.admin.set('lock:{seen:2}', 'x');
    const writes = setInterval(
      () => void redis.admin.set('lock:{seen:3}', String(Math.random())),
      300,
    );
    expect(await end).toEqual([0, '0\n']);
    clearInterval(writes);
    await redis.admin.del('lock:{seen}', 'lock:{seen:2}', 'lock:{seen:3}');
  });
});

describe('npx nestjs-locked on a Redis Cluster', () => {
  const cluster = useRedisCluster();

  it('shows and releases the locks of all nodes, from the URL of any', async () => {
    const { engine } = await cluster.openLocks();
    const keys = Array.from({ length: 30 }, (_, i) => `order:${i}`);
    const locks = await Promise.all(keys.map((key) => engine.acquire(key, { label: 'all' })));
    for (const { url } of cluster.servers.nodes.slice(2, 4)) {
      const { code, stdout, stderr } = await run(url, 'ls', '--json');
      expect([code, stderr]).toEqual([0, '']);
      expect(
        json(stdout)
          .map((lock) => (lock as { key: string }).key)
          .sort(),
      ).toEqual(keys.sort());
    }
    const { url } = await cluster.otherMaster('order:7');
    expect(await run(url, 'release', 'order:7', '--yes')).toMatchObject({ code: 0, stderr: '' });
    const released = locks.find(({ key }) => key === 'order:7');
    await eventually(() => expect(released?.signal.aborted).toBe(true));
  });

  it('shows who waits for whom, from the URL of any, and a deadlock across nodes ends', async () => {
    const [{ engine: one }, { engine: other }] = await Promise.all([
      cluster.openLocks(),
      cluster.openLocks(),
    ]);
    const keys: [string, string] = ['ring:1', 'ring:2']; // of different masters
    const ring = waitForEachOther([one, other], keys, new AbortController().signal);
    await eventually(async () => expect((await one.inspect('ring:2'))?.waiters).toBe(1));
    const url = cluster.servers.nodes.at(-1)?.url;
    // At once, because the deadlock is found and ended after a few seconds.
    const [{ code, stdout, stderr }, ...inspected] = await Promise.all([
      run(url, 'graph', '--json'),
      ...keys.map((key) => run(url, 'inspect', key)),
    ]);
    expect([code, stderr]).toEqual([0, '']);
    for (const one of inspected) expect(one).toMatchObject({ code: 0, stderr: '' }); // is answered
    expect(json(stdout)).toEqual([
      expect.objectContaining({ isDeadlock: true }),
      expect.objectContaining({ isDeadlock: true }),
    ]);
    const from = performance.now();
    await ring;
    expect(performance.now() - from).toBeLessThan(30_000); // half of the wait
  });

  it('shows none of the locks if some cannot be seen', async () => {
    const [node] = cluster.servers.nodes;
    if (node === undefined) throw new Error('the cluster has no nodes');
    const { port } = new URL(node.url);
    const admin = openAdmin(node.url);
    const slots = (await admin.call('CLUSTER', 'SLOTS')) as [number, number, [string, number]][];
    const own = slots.find(([, , [, owner]]) => owner === Number(port));
    await admin.call('CLUSTER', 'DELSLOTS', own?.[0] ?? 0);
    const { code, stdout, stderr } = await run(node.url, 'ls');
    expect([code, stdout]).toEqual([3, '']);
    expect(stderr).toContain('serves only 16383 of its 16384 slots');
  });
});

describe('the table', () => {
  const names = ['KEY', 'CALL', 'LEASE'];

  it.each([
    ['ab', 2],
    ['日本語', 6],
    ['ｶﾅ', 2],
    ['e\u0301', 1],
    ['한글', 4],
    ['🔒', 2],
    ['🇩🇪', 2],
    ['नि', 2],
  ])('knows how many columns %s takes', (text, width) => {
    expect(widthOf(shownText(text))).toBe(width);
  });

  it('keeps its columns under wide texts, joined ones and many marks', () => {
    const texts = [
      '日本語:キー',
      '👩\u200d👩\u200d👧',
      '👍🏽',
      '❤\ufe0f',
      `z${'\u0301'.repeat(5)}`,
      'plain',
    ];
    const rows = texts.map((text) => [shownText(text), 'call', '1s']);
    const columnsBefore = tableOf(names, rows, Infinity, [0, 1])
      .slice(1)
      .map((line) => widthOf(line.slice(0, line.lastIndexOf('call'))));
    expect(new Set(columnsBefore).size).toBe(1);
  });

  it.each([200, 80, 40, 10, 1])('has no line longer than a terminal of %d columns', (columns) => {
    const rows = [
      ['日本'.repeat(100), 'x'.repeat(200), '29.9s'],
      ['stock:1', 'StockService.take', '1.0s'],
    ];
    const lines = tableOf(names, rows, columns, [0, 1]);
    expect(Math.max(...lines.map(widthOf))).toBeLessThanOrEqual(columns);
    if (columns >= 40) expect(lines[1]).toMatch(/^日本.*….* +x+…x+ +29\.9s$/);
  });

  it('cuts nothing where there is no terminal', () => {
    const long = 'k'.repeat(500);
    const lines = tableOf(
      names,
      [
        [long, 'call', '1s'],
        ['a', 'b', 'c'],
      ],
      Infinity,
      [0, 1],
    );
    expect(lines[1]).toBe(`${long}  call  1s`);
    expect(lines[2]).toHaveLength(60 + 2 + 4 + 2 + 1);
  });

  it.each([
    [0, '0.0s'],
    [59_990, '59.9s'],
    [60_000, '1m 0s'],
    [3_599_999, '59m 59s'],
    [3_600_000, '1h 0m'],
    [90_000_000, '1d 1h'],
  ])('shows %d ms as %s', (ms, text) => {
    expect(shownDuration(ms)).toBe(text);
  });
});

/** The changes that a watching process has printed, each with its key. */
function changesOf(child: ReturnType<typeof spawn>): () => [change: string, key: string][] {
  let printed = '';
  child.stdout?.on('data', (data: Buffer) => (printed += data.toString()));
  return () =>
    (
      json(printed.slice(0, printed.lastIndexOf('\n') + 1)) as { change: string; key: string }[]
    ).map(({ change, key }) => [change, key]);
}

/** @returns the exit code, and what was written to standard error */
function ended(child: ReturnType<typeof spawn>): Promise<[code: number | null, stderr: string]> {
  let stderr = '';
  child.stderr?.on('data', (data: Buffer) => (stderr += data.toString()));
  return new Promise((resolve) => child.on('close', (code) => resolve([code, stderr])));
}
