import { describe, expect, it } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readServerInfo } from '../../libs/nestjs-locked/src/redis/connection/server/server-info.js';
import { RedisKeys } from '../../libs/nestjs-locked/src/redis/scripts/redis-keys.js';
import { cells } from '../../tools/matrix/cells.mjs';
import { LIBRARY } from './entry-points.js';
import { readDocument, tablesBelow } from './markdown.js';

const page = readDocument('docs/support.md');

describe('docs/support.md', () => {
  const [rows = []] = tablesBelow('What is supported', page);
  const cellOf = (name: string, column: number): string | undefined =>
    rows.find(([first]) => first?.split(',')[0] === name)?.[column];

  it('names the versions that package.json requires', () => {
    const { engines, peerDependencies } = JSON.parse(
      readFileSync(join(LIBRARY, 'package.json'), 'utf8'),
    ) as Record<'engines' | 'peerDependencies', Record<string, string>>;
    const names: Record<string, string> = {
      ...{ node: 'Node', rxjs: 'RxJS', typeorm: 'TypeORM' },
      ...{ '@nestjs/common': 'Nest', '@nestjs/core': 'Nest', '@nestjs/terminus': 'Terminus' },
    };
    for (const [name, range] of Object.entries({ ...engines, ...peerDependencies })) {
      const versions = range
        .split(' || ')
        .map((version) => `\`${version}\``)
        .join(' or ');
      expect([name, cellOf(names[name] ?? name, 1)]).toEqual([name, versions]);
    }
  });

  it('names the versions of TypeScript and Redis of the matrix, and the oldest one that is not refused', () => {
    const compilers = cells.flatMap(({ name }) => /^typescript-(.+)/.exec(name)?.[1] ?? []);
    expect(cellOf('TypeScript', 2)?.match(/[\d.]+/g)).toEqual(compilers);
    expect(cellOf('TypeScript', 1)).toBe(`${compilers[0]} or later`);
    const [, major = '', minor = ''] = /^(\d+)\.(\d+) or/.exec(cellOf('Redis', 1) ?? '') ?? [];
    expect(() => readServerInfo(`redis_version:${major}.${minor}.0`, false)).not.toThrow();
    expect(() => readServerInfo(`redis_version:${major}.${+minor - 1}.9`, false)).toThrow(
      'too old',
    );
  });

  it('links the list of all Redis keys of a lock, and its channel', () => {
    expect(page.text).toContain('(how-it-works.md#in-redis)');
    const keys = new RedisKeys('lock:');
    const names = [
      ...keys.of('stock:42'),
      keys.processOf('<process>'),
      keys.stalls,
      `${keys.inboxPrefix}<process>`,
    ];
    const [table = []] = tablesBelow('In Redis', readDocument('docs/how-it-works.md'));
    expect(table.map(([name]) => name)).toEqual(names.map((name) => `\`${name}\``));
  });
});
