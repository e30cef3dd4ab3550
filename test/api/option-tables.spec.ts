import { describe, expect, it } from '@jest/globals';
import { format, resolveConfig } from 'prettier';
import ts from 'typescript';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Option } from '../../libs/nestjs-locked/src/core/option.js';
import {
  CALL_OPTIONS,
  ENGINE_OPTIONS,
  SERVICE_OPTIONS,
} from '../../libs/nestjs-locked/src/core/option-tables.js';
import {
  FENCE_OPTIONS,
  TRANSACTION_OPTIONS,
} from '../../libs/nestjs-locked/src/core/transaction.options.js';
import { DECORATOR_OPTIONS } from '../../libs/nestjs-locked/src/nest/decorator/locked.options.js';
import {
  EXTRA_OPTIONS,
  MODULE_OPTIONS,
} from '../../libs/nestjs-locked/src/nest/module/module-option-table.js';
import { FENCE_TABLE_OPTIONS } from '../../libs/nestjs-locked/src/transactions/fence/fence-table.js';
import { readDocument, ROOT } from './markdown.js';

/** Options by name. */
type Rows = Readonly<Record<string, Option<unknown>>>;

const { connection, ...ofModule } = MODULE_OPTIONS as Rows;
/** The options that only calls have: for the others, the text above refers to the table of the module. */
const ofCall = Object.fromEntries(
  Object.entries(CALL_OPTIONS as Rows).filter(
    ([name]) => !['waitMs', 'maxWaiters', 'leaseMs', 'maxHoldMs'].includes(name),
  ),
);

/** The tables of README, in their order. */
const TABLES: readonly Rows[] = [
  {
    connection: connection as Option<unknown>,
    ...(ENGINE_OPTIONS as Rows),
    ...ofModule,
    ...(EXTRA_OPTIONS as Rows),
    ...(TRANSACTION_OPTIONS as Rows),
  },
  { ...ofCall, ...(DECORATOR_OPTIONS as Rows) },
];

const SECTION = /^## Options\n[^]*?(?=^## )/m;
const TABLE = /(?:^\|.*\n)+/gm;

/** As code, with separators between thousands. */
function literal(value: unknown): string {
  if (typeof value === 'string') return `\`'${value}'\``;
  return `\`${String(value).replaceAll(/\B(?=(?:\d{3})+$)/g, '_')}\``;
}

const shown = ({ default: value, shownDefault }: Option<unknown>): string =>
  shownDefault ?? literal(value);

const tableOf = (rows: Rows): string =>
  [
    '| option | default | meaning |',
    '| --- | --- | --- |',
    ...Object.entries(rows).map(([name, row]) => {
      expect([name, row.text]).toEqual([name, expect.anything()]);
      return `| \`${name}\` | ${shown(row)} | ${row.text} |`;
    }),
    '',
  ].join('\n');

/** README with the tables that follow from the options. `OPTION_TABLES=write` saves them. */
async function readmeOf(text: string): Promise<string> {
  const tables = TABLES.map(tableOf);
  const section = (SECTION.exec(text)?.[0] ?? '').replaceAll(TABLE, () => tables.shift() ?? '');
  expect(tables).toEqual([]);
  const options = await resolveConfig(join(ROOT, 'README.md'));
  return format(
    text.replace(SECTION, () => section),
    { ...options, parser: 'markdown' },
  );
}

it('README has the tables that follow from the options (OPTION_TABLES=write regenerates them)', async () => {
  const { text } = readDocument('README.md');
  const expected = await readmeOf(text);
  if (process.env['OPTION_TABLES'] === 'write') writeFileSync(join(ROOT, 'README.md'), expected);
  else expect(text).toBe(expected);
});

describe('the doc comment of each option', () => {
  const INTERFACES: readonly (readonly [file: string, name: string, rows: Rows])[] = [
    ['core/lock.options.ts', 'LockServiceOptions', SERVICE_OPTIONS],
    ['core/transaction.options.ts', 'TransactionOptions', SERVICE_OPTIONS],
    ['core/transaction.options.ts', 'FenceOptions', FENCE_OPTIONS],
    ['transactions/fence/fence-table.ts', 'FenceTableOptions', FENCE_TABLE_OPTIONS],
    ['nest/module/redis-lock.options.ts', 'RedisLockModuleOptions', MODULE_OPTIONS],
    ['nest/module/redis-lock.options.ts', 'RedisLockModuleExtras', EXTRA_OPTIONS],
    ['core/lock.options.ts', 'LockOptions', { ...ofCall, ...(ENGINE_OPTIONS as Rows) }],
    ['core/lock.options.ts', 'WithLockOptions', CALL_OPTIONS],
    ['nest/decorator/locked.options.ts', 'LockedOptions', DECORATOR_OPTIONS],
  ];

  it.each(INTERFACES)('%s: %s names the default that is applied', (file, name, rows) => {
    const defaults = documentedDefaults(file, name);
    expect(defaults.size).toBeGreaterThan(0);
    for (const [option, documented] of defaults) {
      const { default: applied, shownDefault } = rows[option] as Option<unknown>;
      if (applied === undefined) continue;
      const shown = shownDefault ?? literal(applied).slice(1, -1);
      expect([option, documented]).toEqual([option, shown]);
    }
  });
});

/** What `@default` says, by option. */
function documentedDefaults(file: string, name: string): Map<string, string> {
  const path = join(ROOT, 'libs/nestjs-locked/src', file);
  const source = ts.createSourceFile(
    path,
    readFileSync(path, 'utf8'),
    ts.ScriptTarget.ESNext,
    true,
  );
  const found = new Map<string, string>();
  source.forEachChild((node) => {
    if (!ts.isInterfaceDeclaration(node) || node.name.text !== name) return;
    for (const member of node.members) {
      const tag = ts.getJSDocTags(member).find(({ tagName }) => tagName.text === 'default');
      found.set((member.name as ts.Identifier).text, ts.getTextOfJSDocComment(tag?.comment) ?? '');
    }
  });
  return found;
}
