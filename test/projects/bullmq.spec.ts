import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Queue } from 'bullmq';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { readDocument, ROOT } from '../api/markdown.js';
import { TemporaryProject } from '../api/temporary-project.js';
import { afterTest } from '../support/after-test.js';
import { endWithTests } from '../support/end-with-tests.js';
import { eventually } from '../support/eventually.js';
import { useRedisServer } from '../support/own-redis.js';

/** What a worker prints. */
interface Event {
  readonly worker: string;
  readonly what: string;
  readonly accountId: string;
  readonly is: 'begun' | 'done';
  readonly at: number;
}

const LIMIT_MS = 100_000;
let project: TemporaryProject;

const redisServer = useRedisServer();

beforeAll(async () => {
  project = new TemporaryProject();
  project.link('nestjs-locked', 'reflect-metadata', '@types/node', 'ioredis', 'rxjs');
  project.link('@nestjs/common', '@nestjs/core', '@nestjs/bullmq', 'bullmq');
  project.write('package.json', { type: 'module' });
  project.write('tsconfig.json', {
    extends: join(ROOT, 'tsconfig.base.json'),
    compilerOptions: { composite: false, declaration: false, declarationMap: false, outDir: 'out' },
    include: ['*.ts'],
  });
  for (const { file = '', code } of readDocument('docs/bullmq.md').blocks) {
    const imports = `import { Injectable } from '@nestjs/common';
      import { lockKey, Locked, LockService } from 'nestjs-locked';
      void [Injectable, lockKey, Locked, LockService];`;
    project.write(file, `${imports} ${code}`);
  }
  project.write('worker.ts', readFileSync(join(ROOT, 'test/projects/bullmq/worker.ts'), 'utf8'));
  expect(await project.tsc('-p', '.')).toMatchObject({ code: 0, stdout: '' });
});

afterAll(() => project.remove());

describe('BullMQ', () => {
  it('jobs for one account run one after the other, in two workers', async () => {
    const events = await startWorkers(['A', 'B'], 20);
    const queue = openQueue('payouts');
    const jobs = Array.from({ length: 30 }, (_, n) => payout(n % 2 ? 'anna' : 'ben'));
    await queue.addBulk(jobs);
    await eventually(() => expect(events.filter(isDone)).toHaveLength(30), LIMIT_MS);

    expect(mostAtOnce(events, 'anna')).toBe(1);
    expect(mostAtOnce(events, 'ben')).toBe(1);
    expect(mostAtOnce(events)).toBe(2);
    expect(new Set(events.map(({ worker }) => worker)).size).toBe(2);
  });

  it('jobs that are put back leave the worker to other accounts, and use no attempt', async () => {
    await redisServer.admin.set('lock:{account:anna}', 'another-client', 'PX', 60_000);
    const events = await startWorkers(['A'], 20);
    const queue = openQueue('exports');
    // More than the worker takes at once.
    await queue.addBulk(Array.from({ length: 15 }, () => payout('anna')));
    await queue.add('export', { accountId: 'ben' });
    await eventually(() => expect(events.filter(isDone)).toHaveLength(1), LIMIT_MS);
    expect(events.map(({ accountId }) => accountId)).toEqual(['ben', 'ben']);

    await redisServer.admin.del('lock:{account:anna}');
    await eventually(() => expect(events.filter(isDone)).toHaveLength(16), LIMIT_MS);
    expect(mostAtOnce(events, 'anna')).toBe(1);
    await eventually(async () => {
      expect(await queue.getJobCounts('completed', 'failed')).toEqual({ completed: 16, failed: 0 });
    });
    const [job] = await queue.getCompleted();
    expect(job?.returnvalue).toMatch(/^everything about/);
  });

  it('killed in the middle of a job: another worker does the job when the lock is free', async () => {
    const events = await startWorkers(['A', 'B'], 1_000);
    const queue = openQueue('payouts');
    await queue.add('payout', { accountId: 'carla' });
    const [first] = await eventually(() => {
      expect(events).toHaveLength(1);
      return events;
    }, LIMIT_MS);
    await running.get(first?.worker ?? '')?.kill();
    await eventually(() => expect(events.filter(isDone)).toHaveLength(1), LIMIT_MS);

    expect(events.map(({ is }) => is)).toEqual(['begun', 'begun', 'done']);
    expect(events.map(({ worker }) => worker === first?.worker)).toEqual([true, false, false]);
    await eventually(async () => expect(await queue.getCompletedCount()).toBe(1));
  });

  it('SIGTERM: active jobs and jobs that wait for a lock finish, and none is lost', async () => {
    // Neither lock expires when a busy machine lets the worker stand still for a second or two.
    const locks = { JOB_LOCK_MS: '4000', LEASE_MS: '10000' };
    const events = await startWorkers(['A'], 500, locks);
    const queue = openQueue('payouts');
    // Three more than the worker takes at once: the tenth waits for the work of nine, longer than JOB_LOCK_MS.
    await queue.addBulk(Array.from({ length: 13 }, () => payout('dora')));
    await eventually(async () => expect(await queue.getActiveCount()).toBe(10), LIMIT_MS);
    expect(await running.get('A')?.stop()).toBe('SIGTERM');

    expect(events.filter(isDone).length).toBeGreaterThanOrEqual(10);
    expect(await queue.getFailedCount()).toBe(0);
    const later = await startWorkers(['B'], 20, locks);
    await eventually(async () => expect(await queue.getCompletedCount()).toBe(13), LIMIT_MS);
    // Jobs that waited for our lock for longer than BullMQ's own lock lasts were not given to another worker.
    expect([...events, ...later].filter(isDone)).toHaveLength(13);
  });
});

const running = new Map<string, { stop: () => Promise<unknown>; kill: () => Promise<unknown> }>();

/** @returns what the workers say, from their start on; they are killed after the test */
async function startWorkers(
  names: readonly string[],
  workMs: number,
  locks: Readonly<Record<string, string>> = {},
): Promise<Event[]> {
  const events: Event[] = [];
  const settings = { ...locks, WORK_MS: String(workMs) };
  await Promise.all(names.map((name) => startWorker(name, events, settings)));
  return events;
}

async function startWorker(
  name: string,
  events: Event[],
  settings: Readonly<Record<string, string>>,
): Promise<void> {
  const env = { ...process.env, REDIS_URL: redisServer.url, ...settings };
  const program = spawn(process.execPath, ['out/worker.js'], {
    cwd: project.folder,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  endWithTests(program);
  const ended = end(program, name);
  const ready = new Promise<void>((resolve) => {
    createInterface(program.stdout).on('line', (line) => {
      if (line === 'ready') return resolve();
      if (line.startsWith('{')) {
        events.push({ worker: name, ...(JSON.parse(line) as Omit<Event, 'worker'>) });
      }
    });
  });
  await Promise.race([ready, ended]);
}

function end(program: ChildProcess, name: string): Promise<unknown> {
  const ended = once(program, 'close').then(() => program.signalCode ?? program.exitCode);
  const stop = (signal: NodeJS.Signals) => (): Promise<unknown> => {
    program.kill(signal);
    return ended;
  };
  running.set(name, { stop: stop('SIGTERM'), kill: stop('SIGKILL') });
  afterTest(stop('SIGKILL'));
  return ended;
}

function openQueue(name: string): Queue {
  const queue = new Queue(name, {
    connection: { url: redisServer.url },
  });
  afterTest(async () => {
    await queue.obliterate({ force: true });
    await queue.close();
  });
  return queue;
}

function payout(accountId: string): { name: string; data: { accountId: string; amount: number } } {
  return { name: 'payout', data: { accountId, amount: 1 } };
}

function isDone({ is }: Event): boolean {
  return is === 'done';
}

/** How many jobs ran at the same time, of one account or altogether. */
function mostAtOnce(events: readonly Event[], accountId?: string): number {
  let now = 0;
  let most = 0;
  const concerned = events.filter(
    (event) => accountId === undefined || event.accountId === accountId,
  );
  for (const { is } of concerned.toSorted((a, b) => a.at - b.at)) {
    now += is === 'begun' ? 1 : -1;
    most = Math.max(most, now);
  }
  return most;
}
