import js from '@eslint/js';
import stylistic from '@stylistic/eslint-plugin';
import importSort from 'eslint-plugin-simple-import-sort';
import tseslint from 'typescript-eslint';
import { relative, sep } from 'node:path';
import { whyForbidden } from './libs/nestjs-locked/layers.mjs';

const library = 'libs/nestjs-locked/src';
export default tseslint.config(
  {
    ignores: [
      '**/dist/',
      '**/node_modules/',
      'coverage/',
      'docs/api/',
      'libs/nestjs-locked-migrate/{declarations,test/samples}/',
      '**/.vitepress/{cache,.temp}/',
    ],
  },
  js.configs.recommended,
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: {
      parserOptions: { project: 'tsconfig.lint.json', tsconfigRootDir: import.meta.dirname },
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
    name: 'decided once: import order, width of comments, private members',
    plugins: { '@stylistic': stylistic, 'import-sort': importSort },
    rules: {
      // Prettier keeps code to 100 columns, and leaves comments and strings as they are.
      '@stylistic/max-len': [
        'error',
        { code: 1_000, comments: 120, ignoreUrls: true, ignoreStrings: true, tabWidth: 2 },
      ],
      // Packages, then Node's modules, then what is further away in the tree before what is near.
      'import-sort/imports': ['error', { groups: [['^@?\\w', '^node:', '^\\.\\./', '^\\./']] }],
    },
  },
  {
    name: 'private members are private at run time',
    files: ['**/*.ts'],
    rules: {
      // Nest injects into parameters of constructors, which cannot have a `#`.
      'no-restricted-syntax': [
        'error',
        {
          selector:
            ':matches(PropertyDefinition, MethodDefinition[kind!=constructor])[accessibility=private]',
          message: 'Write #name: it is private at run time, too.',
        },
      ],
    },
  },
  {
    name: 'pages know the browser',
    files: ['tools/simulate-page/src/**/*.ts'],
    languageOptions: { parserOptions: { project: 'tools/simulate-page/tsconfig.json' } },
  },
  {
    name: 'the page of the dashboard knows the browser, too',
    files: ['libs/nestjs-locked/page/**/*.ts'],
    languageOptions: { parserOptions: { project: 'libs/nestjs-locked/page/tsconfig.json' } },
  },
  {
    name: 'the types of the peers are there only when they are installed; npm run compare checks them',
    files: ['tools/compare/src/**/*.ts'],
    extends: [tseslint.configs.disableTypeChecked],
    // Elsewhere, this is read from the project: the type of a parameter of a constructor is needed at run time.
    languageOptions: {
      parserOptions: { emitDecoratorMetadata: true, experimentalDecorators: true },
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
  {
    name: 'a test begins with `it`',
    files: ['{test,{apps,libs,tools}/*/test}/**/*.ts'],
    rules: {
      'no-restricted-imports': [
        'error',
        { name: '@jest/globals', importNames: ['test'], message: 'Tests are `describe` and `it`.' },
      ],
    },
  },
  {
    name: 'rooms of the library import downwards',
    files: [`${library}/**/*.ts`],
    plugins: { rooms: { rules: { downwards: { create: importsDownwards } } } },
    rules: { 'rooms/downwards': 'error' },
  },
  {
    name: 'core and transactions read time through clock.ts',
    files: [`${library}/core/**/*.ts`, `${library}/transactions/**/*.ts`],
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

/** Reports every import that `layers.mjs` forbids. */
function importsDownwards(context) {
  const path = relative(`${import.meta.dirname}/${library}`, context.filename);
  const check = (node) => {
    const specifier = node?.value ?? node?.literal?.value;
    if (typeof specifier !== 'string') return;
    const why = whyForbidden(path.split(sep).join('/'), specifier);
    if (why !== undefined) context.report({ node, message: why });
  };
  return {
    ImportDeclaration: ({ source }) => check(source),
    ExportAllDeclaration: ({ source }) => check(source),
    ExportNamedDeclaration: ({ source }) => check(source),
    ImportExpression: ({ source }) => check(source),
    TSImportType: ({ source, argument }) => check(source ?? argument),
  };
}

function throughTheClock() {
  return 'The time is read and timers are set only through core/time/clock.ts.';
}
