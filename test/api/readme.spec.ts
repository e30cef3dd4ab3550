import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import * as library from 'nestjs-locked';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterTest } from '../support/after-test.js';
import { startNest } from '../support/nest-app.js';
import { useRedisServer } from '../support/own-redis.js';
import { readDocument, readDocuments, ROOT, tablesBelow } from './markdown.js';

const documents = readDocuments();
const readme = readDocument('README.md');

const server = useRedisServer();

it('errors table has every error with its class', () => {
  const [table = []] = tablesBelow('Errors', readme);
  const rows = table.map((cells) => cells.slice(0, 2).map(withoutQuotes));
  const errors = Object.entries(library).flatMap(([name, exported]) => {
    const isError = name.endsWith('Error') && name !== 'LockError';
    return isError ? [[new (exported as ErrorClass)('message', 'key', 0).code, name]] : [];
  });
  expect(rows.sort()).toEqual(errors.sort());
});

it('the Redis user of docs/installation.md has all rights that locks need', async () => {
  const { text } = readDocument('docs/installation.md');
  const [, rule = ''] = /^ACL SETUSER (.+)$/m.exec(text) ?? [];
  const admin = new Redis(server.url);
  afterTest(() => admin.disconnect());
  await admin.call('ACL', 'SETUSER', ...rule.split(' '));

  const connection = `redis://app:password@127.0.0.1:${server.port}`;
  const apps = await Promise.all(
    [1, 2].map(() =>
      startNest({ imports: [library.RedisLockModule.forRoot({ connection, leaseMs: 5_000 })] }),
    ),
  );
  const locks = apps.map((app) => app.get(library.LockService));
  let inside = 0;
  const calls = Array.from({ length: 10 }, async (_, call) =>
    locks[call % 2]?.withLock('key', async () => {
      expect(++inside).toBe(1);
      await new Promise((resolve) => setTimeout(resolve, call === 0 ? 2_500 : 2));
      inside -= 1;
    }),
  );
  await Promise.all(calls);
  await locks[0]?.withLock('key', { label: 'test' }, async () => {
    for await (const { key } of locks[1]?.list() ?? []) expect(key).toBe('key');
    await locks[1]?.forceRelease('key');
  });
  const denied = (await admin.call('ACL', 'LOG')) as unknown[][];
  expect(denied.map((entry) => entry[entry.indexOf('object') + 1])).toEqual(
    expect.not.arrayContaining([expect.not.stringMatching(/^client\|/)]),
  );
});

describe.each(documents)('$path', ({ text, blocks }) => {
  it('names commands that exist', () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    const commands = [...text.matchAll(/npm (?:run )?([\w:-]+)/g)].map(([, name = '']) => name);
    const known = [
      ...Object.keys(scripts),
      'ci',
      'install',
      'pack',
      'publish',
      'run',
      // Of an application that `nest new` has made, or of the playground.
      ...['start', 'start:prod', 'test:e2e'],
      'workspaces',
      'stops',
      'warns',
    ];
    expect(commands.filter((name) => !known.includes(name))).toEqual([]);
  });

  it('has no example in a language that is not checked', () => {
    const languages = blocks.map(({ language }) => language);
    expect(
      languages.filter((language) => ['typescript', 'js', 'javascript', 'tsx'].includes(language)),
    ).toEqual([]);
  });
});

type ErrorClass = new (...args: unknown[]) => { code: string };

/** A cell without the marks of code; `'lock:'` keeps its quotes, which belong to the text. */
function withoutQuotes(cell: string): string {
  return cell.replaceAll('`', '');
}
