#!/usr/bin/env node
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { migrate } from './migrate.js';
import { openProject } from './project.js';
import { report } from './report.js';

const HELP = `Usage: npx nestjs-locked-migrate [--write] [--project tsconfig.json] [--key-prefix default|custom]

Rewrites uses of murlock and redlock for nestjs-locked, in the files of a TypeScript project,
and lists what it leaves to you. Without --write, no file is changed.

  --write       change the files
  --project     the tsconfig.json that includes them (default: ./tsconfig.json)
  --key-prefix  lockKeyPrefix of murlock, if it is set at run time`;

try {
  const { values } = parseArgs({
    options: {
      write: { type: 'boolean', default: false },
      project: { type: 'string', default: 'tsconfig.json' },
      'key-prefix': { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) console.log(HELP);
  else run(values.project, prefixFrom(values['key-prefix']), values.write);
} catch (error) {
  console.error((error as Error).message);
  console.error('npx nestjs-locked-migrate --help says more.');
  process.exitCode = 1;
}

function run(tsconfig: string, keyPrefix: 'default' | 'custom' | undefined, write: boolean): void {
  const project = openProject(tsconfig);
  const migration = migrate(project, keyPrefix);
  if (write) for (const [file, text] of migration.files) writeFileSync(file, text);
  console.log(report(migration, project.folder, write));
}

function prefixFrom(text: string | undefined): 'default' | 'custom' | undefined {
  if (text === undefined || text === 'default' || text === 'custom') return text;
  throw new Error(`--key-prefix is '${text}': give default or custom`);
}
