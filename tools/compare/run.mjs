// Runs the scenarios. This is no workspace of the root, because the peers need other versions of Nest than we do.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const FOLDER = fileURLToPath(new URL('.', import.meta.url));
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const MODULES = `${FOLDER}node_modules`;
const OURS = `${MODULES}/nestjs-locked`;

const args = process.argv.slice(2);
// What needs no peer installs none, and then their types are not there either.
const needsPeers = !['--ours', '--list', '--page'].some((option) => args.includes(option));

if (needsPeers) install();
if (existsSync(MODULES)) copyOurs();
rmSync(`${FOLDER}dist`, { recursive: true, force: true });
compile('tsconfig.json', ...(needsPeers ? [] : ['--noCheck']));
if (needsPeers) checkDocumentedUsage();
// In this process, so that a signal ends it as well.
await import('./dist/main.js');

function install() {
  const lock = readFileSync(`${FOLDER}package-lock.json`, 'utf8');
  const installed = `${MODULES}/.installed-lock.json`;
  if (existsSync(installed) && readFileSync(installed, 'utf8') === lock) return;
  run('npm', ['ci', '--no-audit', '--no-fund']);
  writeFileSync(installed, lock);
}

/** A copy and not a link, so that ours uses the same Nest and the same ioredis as the peers. */
function copyOurs() {
  rmSync(OURS, { recursive: true, force: true });
  for (const name of ['package.json', 'dist']) {
    cpSync(`${ROOT}libs/nestjs-locked/${name}`, `${OURS}/${name}`, { recursive: true });
  }
}

/** The examples of the peers in docs/migration.md, which cannot be compiled where the peers are not installed. */
function checkDocumentedUsage() {
  const page = readFileSync(`${ROOT}docs/migration.md`, 'utf8');
  const examples = [...page.matchAll(/^```ts before=(\S+)\n([^]*?)^```$/gm)];
  if (examples.length === 0) throw new Error('docs/migration.md has no examples of the peers');
  mkdirSync(`${FOLDER}dist/before`);
  for (const [, name, code] of examples) writeFileSync(`${FOLDER}dist/before/${name}.ts`, code);
  compile('tsconfig.before.json');
}

function compile(project, ...options) {
  const tsc = `${ROOT}node_modules/typescript/bin/tsc`;
  run(process.execPath, [tsc, '-p', `${FOLDER}${project}`, ...options]);
}

function run(command, parameters) {
  const { status } = spawnSync(command, parameters, { cwd: FOLDER, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}
