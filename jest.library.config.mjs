import { availableParallelism, totalmem } from 'node:os';

/**
 * How the library behaves, on real servers. `jest.faults.config.mjs` takes these servers away, and processes with them;
 * `jest.tools.config.mjs` has all other tests.
 *
 * Two ways to load the same tests' subjects: `esm` as they are published, `cjs` for everything that
 * imports nestjs-cls, which `require`s Nest and therefore needs Nest turned into CommonJS.
 */
const withoutJsExtension = { '^(\\.{1,2}/.*)\\.js$': '$1' };

/** What a worker takes at the most, with the servers and processes that its tests start. */
const WORKER_BYTES = 0.8 * 2 ** 30;

/** @param {'es6' | 'commonjs'} moduleType */
const swc = (moduleType) => [
  '@swc/jest',
  {
    swcrc: false,
    jsc: {
      parser: { syntax: 'typescript', decorators: true },
      transform: { legacyDecorator: true, decoratorMetadata: true },
      target: 'es2022',
      keepClassNames: true,
    },
    module: { type: moduleType },
  },
];

/**
 * Spec files wait half of the time, for leases and limits that pass, so three of them share a core, as far as the
 * memory goes. Twice as many need a third more of the processor for the same work, and are not sooner done. More than
 * twelve would take more connections than one PostgreSQL has.
 */
const maxWorkers = Math.max(
  1,
  Math.min(3 * availableParallelism(), Math.floor(totalmem() / WORKER_BYTES), 12),
);

export default {
  // A test that hangs may take its time; one that is slow on a busy machine must not fail for it.
  testTimeout: 300_000,
  maxWorkers,
  testSequencer: '<rootDir>/test/support/spread-evenly.mjs',
  // Modules of the spec files stay in a worker's memory.
  workerIdleMemoryLimit: '500MB',
  reporters: [
    'default',
    '<rootDir>/scripts/reporters/hangs.mjs',
    '<rootDir>/scripts/reporters/totals.mjs',
  ],
  globalSetup: '<rootDir>/test/support/global-setup.mjs',
  globalTeardown: '<rootDir>/test/support/global-teardown.mjs',
  projects: [
    {
      displayName: 'esm',
      testEnvironment: '<rootDir>/test/support/guarded-environment.mjs',
      testMatch: [
        '<rootDir>/test/!(api|cluster|faults|orms|processes|projects|soak|support)/**/*.spec.ts',
      ],
      extensionsToTreatAsEsm: ['.ts'],
      moduleNameMapper: withoutJsExtension,
      transform: { '^.+\\.ts$': swc('es6') },
    },
    {
      displayName: 'cjs',
      testEnvironment: '<rootDir>/test/support/guarded-environment.mjs',
      testMatch: ['<rootDir>/test/!(orms)/**/*.cjs-spec.ts'],
      moduleNameMapper: withoutJsExtension,
      transform: { '^.+\\.[cm]?[tj]s$': swc('commonjs') },
      transformIgnorePatterns: [
        '/node_modules/(?!(@nestjs|file-type|strtok3|token-types|uint8array-extras|@tokenizer|@borewit|load-esm)/?)',
      ],
    },
  ],
};
