import js from '@eslint/js';
import tseslint from 'typescript-eslint';

const library = 'libs/nestjs-locked/src';
const isRelative = '\\.{1,2}/';

/**
 * The layers of the library and what each may import besides itself: other layers by folder name,
 * packages by name. Node's built-in modules are always allowed. A layer that is not listed here, and
 * the entry point `index.ts`, are free.
 */
const layers = {
  core: { layers: [], packages: [] },
  redis: { layers: ['core'], packages: ['ioredis'] },
  nest: {
    layers: ['core', 'redis'],
    packages: ['@nestjs/', 'acorn', 'reflect-metadata', 'rxjs'],
  },
  testing: { layers: ['core', 'nest'], packages: ['@nestjs/', 'rxjs'] },
  'adapters/nestjs-cls': { layers: ['core'], packages: ['nestjs-cls'] },
  'adapters/typeorm': { layers: ['core'], packages: ['typeorm'] },
};

export default tseslint.config(
  { ignores: ['**/dist/', '**/node_modules/', 'coverage/'] },
  js.configs.recommended,
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
      '@typescript-eslint/consistent-type-imports': 'error',
      // A port may be asynchronous where one of its implementations has nothing to wait for.
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/no-unused-vars': [
        'error',
        { argsIgnorePattern: '^_', caughtErrors: 'all' },
      ],
    },
  },
  {
    files: ['**/*.mjs'],
    languageOptions: {
      globals: Object.fromEntries(
        ['console', 'performance', 'process', 'setInterval', 'setTimeout', 'URL'].map((name) => [
          name,
          'readonly',
        ]),
      ),
    },
  },
  ...Object.entries(layers).map(([layer, allowed]) => layerRule(layer, allowed)),
  {
    name: 'core reads time through clock.ts',
    files: [`${library}/core/**/*.ts`],
    ignores: [`${library}/core/time/clock.ts`],
    rules: {
      'no-restricted-globals': [
        'error',
        ...['setTimeout', 'setInterval'].map((name) => ({ name, message: throughTheClock() })),
      ],
      'no-restricted-properties': [
        'error',
        ...[
          { object: 'Date', property: 'now' },
          { object: 'performance', property: 'now' },
          { object: 'process', property: 'hrtime' },
          { object: 'AbortSignal', property: 'timeout' },
          { object: 'globalThis', property: 'setTimeout' },
          { object: 'globalThis', property: 'setInterval' },
        ].map((member) => ({ ...member, message: throughTheClock() })),
      ],
    },
  },
);

/** Forbids to the files of one layer every import that its entry in `layers` does not name. */
function layerRule(layer, allowed) {
  const folders = ['adapters', ...Object.keys(layers)].map((name) => name.split('/').at(-1));
  const own = layer.split('/').at(-1);
  const others = folders.filter((name) => name !== own && !allowed.layers.includes(name));
  const builtIns = layer === 'core' ? ['node:(?!timers|perf_hooks)'] : ['node:'];
  const bare = [isRelative, ...builtIns, ...allowed.packages.map(wholeName)].join('|');
  const patterns = [
    {
      regex: `^(?!${bare})`,
      message: `${layer}/ may import Node's modules${list(allowed.packages)} and nothing else.`,
    },
    {
      regex: `^(?:\\.{1,2}/)+(?:${others.join('|')})(?:/|\\.js$)`,
      message: `${layer}/ may import itself${list(allowed.layers)}, no other layer.`,
    },
  ];
  return {
    name: `layer ${layer}`,
    files: [`${library}/${layer}/**/*.ts`, `${library}/${layer}.ts`],
    rules: { 'no-restricted-imports': ['error', { patterns }] },
  };
}

/** `@nestjs/` stands for the whole scope, `rxjs` for the package and its sub-paths. */
function wholeName(name) {
  return name.endsWith('/') ? name : `${name}(?:/|$)`;
}

function list(names) {
  return names.map((name) => `, ${name}`).join('');
}

function throughTheClock() {
  return 'core/ reads the time and sets timers only through clock.ts.';
}
