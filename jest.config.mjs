/**
 * Two ways to load the same tests' subjects: `esm` as they are published, `cjs` for everything that
 * imports nestjs-cls, which `require`s Nest and therefore needs Nest turned into CommonJS.
 */
const withoutJsExtension = { '^(\\.{1,2}/.*)\\.js$': '$1' };

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

export default {
  // A test that hangs may take its time; one that is slow on a busy machine must not fail for it.
  testTimeout: 120_000,
  // Tests of time-outs start servers and processes of their own: one file at a time for each core.
  maxWorkers: '100%',
  // Modules of the spec files stay in a worker's memory.
  workerIdleMemoryLimit: '500MB',
  reporters: ['default', '<rootDir>/scripts/reporters/totals.mjs'],
  globalSetup: '<rootDir>/test/support/global-setup.mjs',
  globalTeardown: '<rootDir>/test/support/global-teardown.mjs',
  projects: [
    {
      displayName: 'esm',
      testEnvironment: '<rootDir>/test/support/guarded-environment.mjs',
      testMatch: ['<rootDir>/test/**/*.spec.ts'],
      extensionsToTreatAsEsm: ['.ts'],
      moduleNameMapper: withoutJsExtension,
      transform: { '^.+\\.ts$': swc('es6') },
    },
    {
      displayName: 'cjs',
      testEnvironment: '<rootDir>/test/support/guarded-environment.mjs',
      testMatch: ['<rootDir>/test/**/*.cjs-spec.ts'],
      moduleNameMapper: withoutJsExtension,
      transform: { '^.+\\.[cm]?[tj]s$': swc('commonjs') },
      transformIgnorePatterns: [
        '/node_modules/(?!(@nestjs|file-type|strtok3|token-types|uint8array-extras|@tokenizer|@borewit|load-esm)/?)',
      ],
    },
  ],
};
