/** The coordinator of docs/node-cron.md, in three processes. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type ChildProcess, fork } from 'node:child_process';
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

interface Line {
  readonly what: 'ready' | 'run' | 'not-elected' | 'coordinator-error' | 'error';
  readonly tick: string;
}

let project: TemporaryProject;
const server = useRedisServer();

beforeAll(async () => {
  project = new TemporaryProject();
  project.link('nestjs-locked', 'reflect-metadata', '@types/node', 'ioredis', 'rxjs');
  project.link('@nestjs/common', '@nestjs/core', 'node-cron');
  project.write('package.json', { type: 'module' });
  project.write('tsconfig.json', {
    extends: join(ROOT, 'tsconfig.base.json'),
    compilerOptions: { composite: false, declaration: false, declarationMap: false, outDir: 'out' },
    include: ['*.ts'],
  });
  for (const { file = '', code } of readDocument('docs/node-cron.md').blocks) {
    const imports = `import { Injectable } from '@nestjs/common';
      import { lockKey, LockService } from 'nestjs-locked';
      void [Injectable, lockKey, LockService];`;
    project.write(file, `${imports} ${code}`);
  }
  const replica = readFileSync(join(ROOT, 'test/projects/node-cron/replica.ts'), 'utf8');
  project.write('replica.ts', replica);
  expect(await project.tsc('-p', '.')).toMatchObject({ code: 0, stdout: '' });
});

afterAll(() => project.remove());

/** @returns the lines that they have printed so far */
async function startReplicas(count: number): Promise<Line[]> {
  const lines: Line[] = [];
  const replicas = Array.from({ length: count }, () => startReplica(lines));
  afterTest(async () => {
    for (const replica of replicas) replica.disconnect();
    await Promise.all(replicas.map((replica) => once(replica, 'exit')));
  });
  await eventually(() => expect(of(lines, 'ready')).toHaveLength(count));
  return lines;
}

function startReplica(lines: Line[]): ChildProcess {
  const replica = fork(join(project.folder, 'out/replica.js'), {
    env: { ...process.env, REDIS_URL: server.url },
    execArgv: [],
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  endWithTests(replica);
  createInterface({ input: replica.stdout as NodeJS.ReadableStream }).on('line', (line) => {
    lines.push(JSON.parse(line) as Line);
  });
  return replica;
}

const of = (lines: readonly Line[], wanted: Line['what']): string[] =>
  lines.flatMap(({ what, tick }) => (what === wanted ? tick : []));

describe('node-cron', () => {
  it('runs each tick in one of three processes', async () => {
    const lines = await startReplicas(3);
    await eventually(() => expect(of(lines, 'not-elected').length).toBeGreaterThan(8));
    const ticks = of(lines, 'run');
    expect(ticks.length).toBeGreaterThan(3);
    expect(new Set(ticks).size).toBe(ticks.length);
    expect(of(lines, 'error')).toEqual([]);
  });

  it('runs nothing while Redis does not answer, and says so', async () => {
    const lines = await startReplicas(1);
    await eventually(() => expect(of(lines, 'run').length).toBeGreaterThan(0));
    server.pause();
    afterTest(() => server.resume());
    await eventually(() => expect(of(lines, 'coordinator-error').length).toBeGreaterThan(1));
    expect(of(lines, 'error')[0]).toContain('Run coordinator failed');
    const runs = of(lines, 'run').length;
    await eventually(() => expect(of(lines, 'coordinator-error').length).toBeGreaterThan(3));
    expect(of(lines, 'run')).toHaveLength(runs);
    server.resume();
    await eventually(() => expect(of(lines, 'run').length).toBeGreaterThan(runs));
  });
});
