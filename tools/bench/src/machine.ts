import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os';
import type { Machine } from './results.js';

const require = createRequire(import.meta.url);

export function describeMachine(redis: string): Machine {
  return {
    cores: availableParallelism(),
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    memoryGb: Math.round(totalmem() / 2 ** 30),
    load: loadavg()[0] ?? 0,
    node: process.versions.node,
    redis,
    ioredis: versionOf('ioredis'),
  };
}

/** Whether other programs take so much time that the numbers are of little use. */
export function isBusy({ cores, load }: Machine): boolean {
  return load > cores / 4;
}

export function libraryVersion(): string {
  return versionOf('nestjs-locked');
}

function versionOf(name: string): string {
  const folder = require.resolve.paths(name) ?? [];
  for (const parent of folder) {
    try {
      const text = readFileSync(`${parent}/${name}/package.json`, 'utf8');
      return (JSON.parse(text) as { version: string }).version;
    } catch {
      continue;
    }
  }
  throw new Error(`The package '${name}' is not installed`);
}
