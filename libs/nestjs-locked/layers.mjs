/**
 * The rooms of the library from the ground up, and what each may import besides itself: rooms below it, and packages.
 * ESLint (`eslint.config.mjs`) says so while you type, `test/api/import-rules.spec.ts` in the tests. The entry point
 * at the top (`index.ts`) puts public names together and may import every room.
 */
import { posix } from 'node:path';

/**
 * @typedef {object} Room
 * @property {string} name its folder below src
 * @property {readonly string[]} rooms
 * @property {readonly string[]} packages whole packages, with their sub-paths
 */

/** @type {readonly Room[]} */
export const ROOMS = [
  // The engine: Node's modules only.
  { name: 'core/runtime', rooms: [], packages: [] },
  { name: 'core', rooms: ['core/runtime'], packages: [] },
  { name: 'core/time', rooms: ['core/runtime'], packages: [] },
  { name: 'core/events', rooms: ['core', 'core/time'], packages: [] },
  { name: 'core/keys', rooms: ['core', 'core/runtime'], packages: [] },
  { name: 'core/store', rooms: ['core', 'core/time'], packages: [] },
  { name: 'core/first-lease', rooms: ['core', 'core/time', 'core/store'], packages: [] },
  {
    name: 'core/lease',
    rooms: ['core', 'core/runtime', 'core/events', 'core/time', 'core/store', 'core/first-lease'],
    packages: [],
  },
  {
    name: 'core/queue',
    rooms: ['core', 'core/runtime', 'core/events', 'core/time', 'core/store', 'core/lease'],
    packages: [],
  },
  {
    name: 'core/deadlocks',
    rooms: ['core', 'core/runtime', 'core/time', 'core/store', 'core/lease', 'core/queue'],
    packages: [],
  },
  {
    name: 'core/calls',
    rooms: [
      'core/deadlocks',
      'core',
      'core/runtime',
      'core/events',
      'core/time',
      'core/keys',
      'core/store',
      'core/lease',
      'core/queue',
    ],
    packages: [],
  },
  {
    name: 'core/leader',
    rooms: ['core', 'core/runtime', 'core/keys', 'core/store', 'core/lease', 'core/calls'],
    packages: [],
  },
  {
    name: 'core/engine',
    rooms: [
      'core/leader',
      'core/deadlocks',
      'core/first-lease',
      'core',
      'core/runtime',
      'core/events',
      'core/time',
      'core/keys',
      'core/store',
      'core/lease',
      'core/queue',
      'core/calls',
    ],
    packages: [],
  },

  // The store on Redis.
  { name: 'redis/scripts', rooms: ['core/store'], packages: [] },
  {
    name: 'redis/connection/server',
    rooms: ['core', 'core/runtime', 'redis/scripts'],
    packages: ['ioredis'],
  },
  { name: 'redis/connection/sentinel', rooms: [], packages: [] },
  {
    name: 'redis/connection/silence',
    rooms: ['core', 'core/time', 'redis/connection/server'],
    packages: [],
  },
  {
    name: 'redis/connection/traffic',
    rooms: [
      'core',
      'core/runtime',
      'core/time',
      'core/store',
      'redis/scripts',
      'redis/connection/server',
      'redis/connection/sentinel',
      'redis/connection/silence',
    ],
    packages: [],
  },
  {
    name: 'redis/connection/proof',
    rooms: [
      'core',
      'core/runtime',
      'core/time',
      'redis/scripts',
      'redis/connection/server',
      'redis/connection/silence',
      'redis/connection/traffic',
    ],
    packages: [],
  },
  {
    name: 'redis/connection',
    rooms: [
      'core',
      'core/time',
      'core/store',
      'redis/scripts',
      'redis/connection/server',
      'redis/connection/traffic',
      'redis/connection/proof',
    ],
    packages: [],
  },
  {
    name: 'redis/cluster',
    rooms: [
      'core',
      'core/runtime',
      'core/time',
      'redis/connection/server',
      'redis/connection/silence',
      'redis/connection/traffic',
      'redis/connection/proof',
      'redis/connection',
    ],
    packages: [],
  },
  {
    name: 'redis/backup',
    rooms: ['core', 'core/time', 'core/store', 'redis/scripts', 'redis/connection/server'],
    packages: [],
  },
  {
    name: 'redis',
    rooms: [
      'core',
      'core/runtime',
      'core/time',
      'core/store',
      'redis/scripts',
      'redis/connection/server',
      'redis/connection/traffic',
      'redis/connection',
      'redis/cluster',
      'redis/backup',
    ],
    packages: [],
  },
  {
    name: 'redis/quorum',
    rooms: [
      'core',
      'core/runtime',
      'core/time',
      'core/store',
      'redis/scripts',
      'redis/connection/server',
      'redis/connection/traffic',
      'redis/connection',
      'redis',
    ],
    packages: [],
  },

  {
    name: 'redis/redisson',
    rooms: ['core', 'core/store', 'redis/scripts', 'redis/connection/server', 'redis'],
    packages: [],
  },

  // Transactions: loaded by an adapter, never by the root.
  { name: 'transactions/sql', rooms: ['core', 'core/runtime', 'core/time'], packages: [] },
  {
    name: 'transactions/fence',
    rooms: ['core', 'core/runtime', 'core/time', 'core/queue', 'core/calls', 'transactions/sql'],
    packages: [],
  },
  {
    name: 'transactions/scope',
    rooms: [
      'core',
      'core/runtime',
      'core/time',
      'core/keys',
      'core/queue',
      'core/calls',
      'transactions/sql',
      'transactions/fence',
    ],
    packages: [],
  },
  {
    name: 'transactions/orm',
    rooms: ['core', 'core/time', 'transactions/sql', 'transactions/scope'],
    packages: [],
  },
  {
    name: 'transactions',
    rooms: ['transactions/sql', 'transactions/fence', 'transactions/orm'],
    packages: [],
  },
  {
    name: 'adapters/typeorm',
    rooms: [
      'core',
      'transactions/sql',
      'transactions/fence',
      'transactions/scope',
      'transactions/orm',
    ],
    packages: ['typeorm'],
  },
  {
    name: 'adapters/nestjs-cls',
    // Of TypeORM, that room imports the types alone.
    rooms: [
      'adapters/typeorm',
      'core',
      'core/calls',
      'transactions/sql',
      'transactions/scope',
      'transactions/orm',
    ],
    packages: ['nestjs-cls'],
  },

  // What leads the channels of events elsewhere.
  {
    name: 'opentelemetry',
    rooms: ['core', 'core/events', 'core/time'],
    packages: ['@opentelemetry/api'],
  },

  // The program for operators, which no application loads.
  {
    name: 'cli',
    rooms: [
      'core',
      'core/deadlocks',
      'core/runtime',
      'core/keys',
      'core/store',
      'core/time',
      'redis/scripts',
      'redis/connection/server',
      'redis/connection/silence',
      'redis/connection/traffic',
      'redis/connection/proof',
      'redis/connection',
      'redis',
    ],
    packages: ['ioredis'],
  },

  // Nest.
  { name: 'nest/result', rooms: ['core'], packages: ['@nestjs/common', 'rxjs'] },
  {
    name: 'nest/decorator',
    rooms: ['core', 'core/runtime', 'core/keys', 'core/engine', 'nest/result'],
    packages: ['@nestjs/common', '@nestjs/core', 'acorn', 'reflect-metadata', 'rxjs'],
  },
  {
    name: 'nest/requests',
    rooms: ['core', 'core/runtime', 'core/time', 'core/keys'],
    packages: ['@nestjs/common', '@nestjs/core', 'rxjs'],
  },
  {
    name: 'nest',
    rooms: [
      'core',
      'core/runtime',
      'core/keys',
      'core/engine',
      'nest/result',
      'nest/decorator',
      'nest/requests',
    ],
    packages: ['@nestjs/common', '@nestjs/core', 'rxjs'],
  },
  {
    name: 'nest/module',
    rooms: [
      'core/deadlocks',
      'core',
      'core/runtime',
      'core/time',
      'core/keys',
      'core/calls',
      'core/engine',
      'redis/connection/server',
      'redis',
      'redis/quorum',
      'redis/redisson',
      'nest/decorator',
      'nest/requests',
      'nest',
    ],
    packages: ['@nestjs/common', '@nestjs/core'],
  },
  {
    name: 'terminus',
    rooms: ['core', 'core/runtime', 'core/time', 'nest/decorator'],
    packages: ['@nestjs/common', '@nestjs/core', '@nestjs/terminus'],
  },
  {
    name: 'dashboard',
    rooms: [
      'core',
      'core/deadlocks',
      'core/events',
      'core/keys',
      'core/runtime',
      'core/time',
      'nest',
      'nest/decorator',
    ],
    packages: ['@nestjs/common', '@nestjs/core'],
  },
  {
    name: 'testing',
    rooms: [
      'core',
      'core/runtime',
      'core/time',
      'core/keys',
      'core/store',
      'core/calls',
      'core/engine',
      'nest/decorator',
      'nest',
      'nest/module',
    ],
    packages: ['@nestjs/common', '@nestjs/core'],
  },
];

/** Ways around the clock of `core/time`. */
const TIMERS = ['node:timers', 'node:timers/promises', 'node:perf_hooks'];

/**
 * @param {string} path of a source file, below src, with `/`
 * @param {string} specifier what it imports
 * @returns {string | undefined} why it must not, if it must not
 */
export function whyForbidden(path, specifier) {
  const folder = posix.dirname(path);
  if (folder === '.') return undefined;
  const room = ROOMS.find(({ name }) => name === folder);
  if (room === undefined) return `${folder}/ is no room of layers.mjs`;
  if (specifier.startsWith('node:')) {
    const readsTime = /^(core|transactions)(\/|$)/.test(folder) && TIMERS.includes(specifier);
    return readsTime ? 'time is read and timers are set through core/time/clock.ts' : undefined;
  }
  if (!specifier.startsWith('.')) {
    const isAllowed = room.packages.some(
      (name) => specifier === name || specifier.startsWith(`${name}/`),
    );
    return isAllowed ? undefined : `${folder}/ does not import '${specifier}'`;
  }
  const target = posix.dirname(posix.join(folder, specifier));
  if (target === folder || room.rooms.includes(target)) return undefined;
  return `${folder}/ does not import from ${target === '.' ? 'the entry points' : `${target}/`}`;
}
