import { describe, expect, it } from '@jest/globals';
import { faketime } from 'dev-servers';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterTest } from '../../../test/support/after-test.js';
import { endWithTests } from '../../../test/support/end-with-tests.js';
import { eventually } from '../../../test/support/eventually.js';
import { useRedisServer } from '../../../test/support/own-redis.js';
import { ReplicaProcess } from '../src/fleet/replica-process.js';
import { Tally } from '../src/fleet/tally.js';
import { archiveKey } from '../src/report-archive.js';
import { tickAt } from '../src/tick.js';

const MAIN_FILE = fileURLToPath(new URL('../dist/main.js', import.meta.url));
const NAMES = ['behind', 'right', 'ahead'] as const;
const LIMIT_MS = 120_000;

const redisServer = useRedisServer();

describe('nightly-report', () => {
  it('runs each tick once in three processes whose clocks are a second apart', async () => {
    const { tally } = await startFleet([clock(-1), clock(0), clock(1)]);
    for (const tick of await endedTicks(tally, 6)) {
      const { begun, done } = tally.of(tick);
      expect([tick, begun]).toEqual([tick, [expect.any(String)]]);
      expect([tick, done]).toEqual([tick, begun]);
      expect(await redisServer.admin.llen(archiveKey(tick))).toBe(1);
    }
  });

  it('killed while it writes: that report stays away, all others are written once', async () => {
    const { tally, replicas } = await startFleet([{}, {}, {}]);
    const { tick, name } = await killTheWriter(tally, replicas);
    const others = (await endedTicks(tally, 4)).filter((it) => it !== tick);

    expect(tally.of(tick)).toEqual({ begun: [name], done: [] });
    expect(await redisServer.admin.llen(archiveKey(tick))).toBe(0);
    for (const other of others) {
      const { begun, done } = tally.of(other);
      expect([other, begun.length, done]).toEqual([other, 1, begun]);
    }
  });

  it('killed while it writes, with take-over: another process writes it when the lease ends', async () => {
    const takeOver = { REPORT_IF_KILLED: 'take-over' };
    const { tally, replicas } = await startFleet([clock(-1), clock(0), clock(1)], takeOver);
    const { tick, name } = await killTheWriter(tally, replicas);
    const ticks = await endedTicks(tally, 4);

    const { begun, done } = tally.of(tick);
    expect(begun).toEqual([name, expect.not.stringMatching(name)]);
    expect(done).toEqual([begun[1]]);
    for (const other of ticks) {
      const record = tally.of(other);
      if (other !== tick) expect([other, record.begun]).toEqual([other, record.done]);
      expect([other, await redisServer.admin.llen(archiveKey(other))]).toEqual([other, 1]);
    }
  });

  it('finishes its report before it ends on SIGTERM', async () => {
    const { tally, replicas } = await startFleet([{}]);
    const [tick = ''] = await eventually(() => {
      expect(tally.ticks).toHaveLength(1);
      return tally.ticks;
    }, LIMIT_MS);
    await replicas.get('behind')?.stop();
    expect(tally.of(tick).done).toEqual(['behind']);
    expect(await redisServer.admin.llen(archiveKey(tick))).toBe(1);
  });

  it.each([
    ['REPORT_TAKES_MS', 'long', "REPORT_TAKES_MS is 'long': set it to a whole number"],
    ['REPORT_IF_KILLED', 'weep', "REPORT_IF_KILLED is 'weep': set it to leave or take-over"],
  ])('does not start with a wrong %s, and says why', async (name, value, message) => {
    const replica = new ReplicaProcess({ REDIS_URL: redisServer.url, [name]: value });
    expect(await replica.ended).toBe('exit code 1');
    expect(replica.output).toContain(message);
  });

  it('npm run start:nightly-report kills and replaces a process, and prints who did what', async () => {
    const program = spawn(
      process.execPath,
      [MAIN_FILE, '--ticks', '3', '--kill', '--skew-ms', '500', '--if-killed', 'take-over'],
      { env: { ...process.env, REDIS_URL: redisServer.url }, stdio: ['ignore', 'pipe', 'pipe'] },
    );
    endWithTests(program);
    let output = '';
    for (const stream of [program.stdout, program.stderr]) {
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    }
    await once(program, 'close');
    expect([program.exitCode, output]).toEqual([
      0,
      expect.stringMatching(/begun by ([ABC]) and (?!\1)([ABC]), finished by \2\n/),
    ]);
  });
});

it('a clock is in one tick from its second to the next one', () => {
  const noon = Date.UTC(2026, 0, 1, 12);
  expect(tickAt(noon)).toBe('2026-01-01T12:00:00Z');
  expect(tickAt(noon + 2_999)).toBe('2026-01-01T12:00:00Z');
  expect(tickAt(noon + 3_000)).toBe('2026-01-01T12:00:03Z');
});

type Environment = Record<string, string>;

/** Three replicas or fewer, whose reports take a second; ended after the test. */
async function startFleet(
  clocks: readonly Environment[],
  settings: Environment = {},
): Promise<{ tally: Tally; replicas: Map<string, ReplicaProcess> }> {
  const replicas = new Map<string, ReplicaProcess>();
  const tally = new Tally();
  for (const [n, wrong] of clocks.entries()) {
    const name = NAMES[n] as string;
    const environment = { REDIS_URL: redisServer.url, REPORT_TAKES_MS: '1000', ...settings };
    const hear = (line: string): void => tally.hear(name, line);
    replicas.set(name, new ReplicaProcess({ ...environment, ...wrong }, hear));
  }
  afterTest(() => Promise.all([...replicas.values()].map((replica) => replica.stop())));
  await Promise.all([...replicas.values()].map((replica) => replica.ready()));
  return { tally, replicas };
}

/** The environment of a process whose clock is so many seconds off: with libfaketime where there is one. */
function clock(seconds: number): Environment {
  if (seconds === 0) return {};
  if (faketime === undefined) return { CLOCK_OFFSET_MS: String(seconds * 1_000) };
  return {
    LD_PRELOAD: faketime,
    FAKETIME: `${seconds < 0 ? '' : '+'}${seconds}s`,
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  };
}

/** The first ticks, at least so many, when they are over: what comes after them may still be under way. */
async function endedTicks(tally: Tally, count: number): Promise<string[]> {
  await eventually(() => expect(tally.ticks.length).toBeGreaterThan(count + 1), LIMIT_MS);
  return tally.ticks.slice(0, -2);
}

/** Kills the process that begins a report after the next one is done, while it writes. */
async function killTheWriter(
  tally: Tally,
  replicas: ReadonlyMap<string, ReplicaProcess>,
): Promise<{ tick: string; name: string }> {
  const tick = await eventually(() => {
    const found = tally.ticks.find((it) => it !== tally.ticks[0] && isUnderWay(it));
    if (found === undefined) throw new Error('No report is being written yet');
    return found;
  }, LIMIT_MS);
  const [name = ''] = tally.of(tick).begun;
  await replicas.get(name)?.kill();
  return { tick, name };

  function isUnderWay(it: string): boolean {
    return tally.of(it).begun.length === 1 && tally.of(it).done.length === 0;
  }
}
