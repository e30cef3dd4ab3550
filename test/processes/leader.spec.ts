import { afterAll, beforeEach, describe, expect, it } from '@jest/globals';
import { cleanUpAtExit } from 'dev-servers';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { LockObserver } from '../support/lock-observer.js';
import { sharedNow } from '../support/lock-process.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const WORKER = fileURLToPath(new URL('leader-worker.mjs', import.meta.url));
const LEASE_MS = 3_000;
/** Too long for a lease to expire during a test. */
const LONG_LEASE_MS = 60_000;
/** Upper bound for what takes milliseconds on an idle machine. */
const SOON_MS = 5_000;

interface Line {
  readonly by: string;
  readonly at: number;
  readonly what: 'elected' | 'work' | 'deposed' | 'aborted';
  readonly token?: number;
  readonly reason?: string;
  readonly code?: string;
}

const folder = mkdtempSync(join(tmpdir(), 'leaders-'));
afterAll(() => rmSync(folder, { recursive: true }));
const server = useRedisServer();
const observer = new LockObserver(server);
let key: string;
let register: string;

beforeEach(() => {
  key = uniqueKey();
  register = join(folder, key.replaceAll(/\W/g, '-'));
  writeFileSync(register, '');
});

/** Processes that campaign, in the order of their names: the first one leads. */
async function start(leaseMs: number, ...names: string[]): Promise<Record<string, ChildProcess>> {
  const started: Record<string, ChildProcess> = {};
  for (const name of names) {
    started[name] = await candidate(leaseMs, name);
    await (name === 'a' ? elected('a') : observer.waiting(key, Object.keys(started).length - 1));
  }
  return started;
}

async function candidate(leaseMs: number, name: string): Promise<ChildProcess> {
  const child = fork(WORKER, [server.url, key, String(leaseMs), register, name], { execArgv: [] });
  const cancel = cleanUpAtExit({ kind: 'process', pid: child.pid as number, signal: 'SIGKILL' });
  const exited = once(child, 'exit').then(cancel);
  afterTest(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  await once(child, 'message');
  return child;
}

function lines(): Line[] {
  const text = readFileSync(register, 'utf8');
  return text.split('\n').flatMap((line) => (line === '' ? [] : (JSON.parse(line) as Line)));
}

/** The line that says that it leads. @param times how often it must have been elected */
function elected(by: string, times = 1): Promise<Line> {
  return eventually(() => {
    const line = lines().filter((it) => it.by === by && it.what === 'elected')[times - 1];
    expect(line).toBeDefined();
    return line as Line;
  });
}

/** Nobody has worked as a leader once somebody with a later lock was elected. */
function expectOneLeaderAtATime(): void {
  const tokens = lines().flatMap(({ what, token }) =>
    what === 'elected' || what === 'work' ? (token as number) : [],
  );
  expect(tokens).toEqual([...tokens].sort((a, b) => a - b));
}

describe('three processes', () => {
  it('end in turn, killed and closed: another one leads within a lease, or at once', async () => {
    const { a, b } = await start(LEASE_MS, 'a', 'b', 'c');

    a!.kill('SIGKILL');
    const { earliest, latest } = await observer.leaseEnd(key);
    const second = await elected('b');
    expect(second.at).toBeGreaterThanOrEqual(earliest);
    expect(second.at).toBeLessThan(latest + SOON_MS);

    const closedAt = sharedNow();
    const exited = once(b!, 'exit'); // perhaps before c has said that it leads
    b!.kill('SIGTERM');
    const third = await elected('c');
    expect(third.at).toBeLessThan(closedAt + SOON_MS);
    await exited;
    const ofB = lines().filter(({ by, what }) => by === 'b' && what !== 'work');
    expect(ofB).toMatchObject([
      { what: 'elected' },
      { what: 'aborted', code: 'LOCK_ABORTED' },
      { what: 'deposed', reason: 'closed' },
    ]);
    expectOneLeaderAtATime();
  });

  it('closed one after the other, none waits for a lease', async () => {
    const { a, b, c } = await start(LONG_LEASE_MS, 'a', 'b', 'c');
    const closedAt = sharedNow();
    a!.kill('SIGTERM');
    await elected('b');
    b!.kill('SIGTERM');
    await elected('c');
    c!.kill('SIGTERM');
    await once(c!, 'exit');
    expect(sharedNow() - closedAt).toBeLessThan(LONG_LEASE_MS / 2);
    await observer.nothingLeft(key);
    expectOneLeaderAtATime();
  });

  it('one of which is paused: it never acts beside its successor, learns it, and waits again', async () => {
    const { a, b } = await start(LEASE_MS, 'a', 'b', 'c');

    a!.send('pause');
    await elected('b');
    await sleep(200);
    const before = lines().length;
    a!.kill('SIGCONT');
    await eventually(() =>
      expect(
        lines()
          .filter(({ by }) => by === 'a')
          .slice(-2),
      ).toMatchObject([
        { what: 'deposed', reason: 'expired' },
        { what: 'aborted', code: 'LOCK_LOST' },
      ]),
    );
    expect(
      lines().findIndex(({ by, what }) => by === 'a' && what === 'deposed'),
    ).toBeGreaterThanOrEqual(before);
    await observer.waiting(key, 2); // it campaigns again, behind c

    b!.kill('SIGTERM');
    await elected('c');
    expectOneLeaderAtATime();
  });
});
