import { describe, expect, it } from '@jest/globals';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ROOMS, whyForbidden } from '../../libs/nestjs-locked/layers.mjs';
import { entryPoints, LIBRARY } from './entry-points.js';
import {
  findCycle,
  importsOf,
  packageOf,
  readModule,
  readModules,
  type SourceModule,
  targetOf,
} from './module-imports.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const sources = readModules(join(LIBRARY, 'src'));

/** Every import that a room must not have, as a sentence. */
function violations(modules: readonly SourceModule[]): string[] {
  return modules.flatMap(({ path, imports }) =>
    imports.flatMap(({ specifier }) => {
      const why = whyForbidden(path, specifier);
      return why === undefined ? [] : `${path}: ${why}`;
    }),
  );
}

/** Edges between the nodes that `nodeOf` makes of paths. */
function graph(
  modules: readonly SourceModule[],
  nodeOf: (path: string) => string,
  { withTypes }: { readonly withTypes: boolean },
): Map<string, Set<string>> {
  const edges = new Map<string, Set<string>>();
  for (const module of modules) {
    const from = nodeOf(module.path);
    const targets = edges.get(from) ?? new Set();
    edges.set(from, targets);
    for (const it of module.imports) {
      const target = targetOf(module, it);
      if (target === undefined || (it.isTypeOnly && !withTypes)) continue;
      const to = nodeOf(target);
      if (to !== from) targets.add(to);
    }
  }
  return edges;
}

describe('imports of the library', () => {
  it('follow the table of rooms', () => {
    expect(violations(sources)).toEqual([]);
  });

  it('lead only down: a room may import only those before it in the table', () => {
    const names = ROOMS.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    for (const [floor, { rooms }] of ROOMS.entries()) {
      expect(rooms.filter((room) => !names.slice(0, floor).includes(room))).toEqual([]);
    }
  });

  it('are all needed: the table allows no import that does not exist', () => {
    const unused = ROOMS.flatMap(({ name, rooms, packages }) => {
      const inside = sources.filter(({ path }) => posix.dirname(path) === name);
      const targets = inside.flatMap((module) => module.imports.map((it) => targetOf(module, it)));
      const folders = targets.map((target) => target && posix.dirname(target));
      const asked = packagesOf(inside);
      return [
        ...rooms.filter((room) => !folders.includes(room)),
        ...packages.filter((needed) => !asked.includes(needed)),
      ].map((what) => `${name}: ${what}`);
    });
    expect(unused).toEqual([]);
  });

  it('load nothing about transactions before an adapter is in use', () => {
    const edges = graph(sources, (path) => path, { withTypes: false });
    const loaded = new Set(['index.ts']);
    for (const path of loaded) for (const target of edges.get(path) ?? []) loaded.add(target);
    expect(loaded.size).toBeGreaterThan(50);
    expect([...loaded].filter((path) => path.startsWith('transactions/'))).toEqual([]);
  });

  it('have no cycle between files, types included', () => {
    expect(findCycle(graph(sources, (path) => path, { withTypes: true }))).toBeUndefined();
  });

  it('lead to files of the library and to nothing outside', () => {
    const paths = new Set(sources.map(({ path }) => path));
    const outside = sources.flatMap((module) =>
      module.imports
        .map((it) => targetOf(module, it))
        .filter((target) => target !== undefined && !paths.has(target)),
    );
    expect(outside).toEqual([]);
  });

  it('name only declared packages', () => {
    const { dependencies, peerDependencies } = manifest();
    const declared = Object.keys({ ...dependencies, ...peerDependencies });
    expect(packagesOf(sources).filter((name) => !declared.includes(name))).toEqual([]);
    expect(Object.keys(dependencies)).toEqual(['acorn']);
  });

  it('the rules refuse what they should', () => {
    const wrong: readonly [path: string, source: string][] = [
      ['core/a.ts', `import { Module } from '@nestjs/common';`],
      ['core/lease/b.ts', `import type { Redis } from 'ioredis';`],
      ['core/store/c.ts', `export { x } from '../../redis/x.js';`],
      ['core/calls/d.ts', `import { setTimeout } from 'node:timers/promises';`],
      ['core/store/e.ts', `import type { Lease } from '../lease/lease.js';`],
      ['redis/f.ts', `type M = import('../nest/module/redis-lock.module.js').RedisLockModule;`],
      ['nest/result/g.ts', `const typeorm = await import('typeorm');`],
      ['testing/h.ts', `import { openRedis } from '../redis/connection/server/open-redis.js';`],
      ['core/lease/i.ts', `import { LockService } from '../../index.js';`],
      ['other/j.ts', `import 'node:fs';`],
    ];
    const modules = wrong.map(([path, source]) => ({ path, imports: importsOf(source) }));
    expect(violations(modules)).toHaveLength(wrong.length);
    expect(
      findCycle(
        new Map([
          ['a', new Set(['b'])],
          ['b', new Set(['a'])],
        ]),
      ),
    ).toEqual(['a', 'b', 'a']);
  });
});

describe('emitted declarations', () => {
  it.each(entryPoints())('of $specifier name only required packages', ({ import: { types } }) => {
    const { dependencies, peerDependencies, peerDependenciesMeta = {} } = manifest();
    const required = Object.keys({ ...dependencies, ...peerDependencies }).filter(
      (name) => peerDependenciesMeta[name]?.optional !== true,
    );
    // The room of an entry point may import its own peer, and no other.
    const path = types.replace('./dist/', '');
    const room = ROOMS.find(({ name }) => path === `${name}/index.d.ts`);
    const allowed = [...required, ...(room?.packages ?? [])];
    const reached = declarationsFrom(path);
    expect(packagesOf(reached).filter((name) => !allowed.includes(name))).toEqual([]);
  });
});

describe('imports around the library', () => {
  it('apps and tools use the public entry points, and nothing imports apps or tests', () => {
    const known = entryPoints().map(({ specifier }) => specifier);
    const apps = ['apps', 'tools']
      .flatMap((folder) => readdirSync(join(ROOT, folder)).map((name) => join(ROOT, folder, name)))
      .filter((folder) => existsSync(join(folder, 'src')))
      // It gives the engine another clock and another network, which no user can.
      .filter((folder) => !folder.endsWith('simulate'))
      .flatMap((folder) => readModules(join(folder, 'src')));
    const wrong = apps.flatMap(({ path, imports }) =>
      imports
        .map(({ specifier }) => specifier)
        .filter((it) =>
          it.startsWith('nestjs-locked') ? !known.includes(it) : /\/(libs|test)\//.test(it),
        )
        .map((specifier) => `${path}: ${specifier}`),
    );
    expect(wrong).toEqual([]);

    const names = ['stock-api', 'demo', 'dev-servers', 'nestjs-locked'];
    expect(packagesOf(sources).filter((name) => names.includes(name))).toEqual([]);
  });
});

interface Manifest {
  readonly dependencies: Record<string, string>;
  readonly peerDependencies: Record<string, string>;
  readonly peerDependenciesMeta?: Record<string, { optional?: boolean }>;
}

function manifest(): Manifest {
  return JSON.parse(readFileSync(join(LIBRARY, 'package.json'), 'utf8')) as Manifest;
}

/** Names of all packages that are imported, without Node's own. */
function packagesOf(modules: readonly SourceModule[]): string[] {
  const names = modules.flatMap(({ imports }) => imports.map((it) => packageOf(it) ?? 'node:'));
  return [...new Set(names)].filter((name) => !name.startsWith('node:')).sort();
}

/** A declaration file and all of ours that it leads to. */
function declarationsFrom(entry: string): SourceModule[] {
  const reached = new Map<string, SourceModule>();
  const visit = (path: string): void => {
    if (reached.has(path)) return;
    const module = readModule(join(LIBRARY, 'dist'), path);
    reached.set(path, module);
    for (const it of module.imports) {
      const target = targetOf(module, it);
      if (target !== undefined) visit(target.replace(/\.ts$/, '.d.ts'));
    }
  };
  visit(entry);
  return [...reached.values()];
}
