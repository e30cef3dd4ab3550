/**
 * Servers of several versions beside each other: from PATH, or from the packages of Debian, which are unpacked into a
 * folder and not installed. No ready tool does that without containers.
 */
import { RedisServer } from 'dev-servers';
import { spawnSync } from 'node:child_process';
import { accessSync, chmodSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { Skipped } from './generated-app.mjs';

const LIMIT_MS = 300_000;
const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg';

/**
 * @typedef {object} WantedServer
 * @property {string} program the name of the program, which is that of its package too
 * @property {number} major
 * @property {string} suite the release of Debian that has it
 */

/**
 * @param {WantedServer} wanted
 * @param {string} folder an empty one, into which it is unpacked if need be
 * @returns {string} the path of a program of this version
 * @throws Skipped if there is none, and why
 */
export function findServer(wanted, folder) {
  return serverOnPath(wanted) ?? serverFromDebian(wanted, folder);
}

/**
 * Starts a server of this program, and nothing of the name of another one that PATH may have.
 *
 * @param {string} program
 * @param {string} folder where a folder may be made that has this program alone, by the name `redis-server`
 */
export async function startServer(program, folder) {
  const path = process.env['PATH'];
  process.env['PATH'] = folderOf(program, folder);
  try {
    return await RedisServer.start();
  } finally {
    process.env['PATH'] = path;
  }
}

/** A folder in which `redis-server` is this program, whatever it is called; to be put first into PATH. */
export function folderOf(program, folder) {
  const alone = join(folder, 'alone');
  mkdirSync(alone, { recursive: true });
  const link = join(alone, 'redis-server');
  if (!isThere(link)) symlinkSync(program, link);
  return alone;
}

/** @returns {string} what `--version` says, as 8.0.2; empty if the program does not run */
export function versionOf(program) {
  const { stdout } = spawnSync(program, ['--version'], { encoding: 'utf8', timeout: 10_000 });
  return /\bv=(\d+\.\d+\.\d+)/.exec(stdout ?? '')?.[1] ?? '';
}

function serverOnPath({ program, major }) {
  return (process.env['PATH'] ?? '')
    .split(delimiter)
    .map((folder) => join(folder, program))
    .filter(isThere)
    .find((path) => versionOf(path).startsWith(`${major}.`));
}

function serverFromDebian({ program, major, suite }, folder) {
  const missing = `there is no ${program} ${major} on PATH`;
  const archive = debianArchive();
  if (archive === undefined)
    throw new Skipped(`${missing}, and no archive of Debian to unpack it from`);
  const packages = download(program, { archive, suite, folder });
  if (packages === undefined)
    throw new Skipped(`${missing}, and apt-get could not download Debian's`);

  const root = join(folder, 'root');
  for (const file of packages) run('dpkg', ['-x', file, root]);
  const unpacked = withOwnLibraries(join(root, 'usr/bin', program), root, folder);
  const version = versionOf(unpacked);
  if (version.startsWith(`${major}.`)) return unpacked;
  throw new Skipped(`${missing}, and what Debian has is ${version || 'not to be run here'}`);
}

/** The archive that this machine's own packages come from. */
function debianArchive() {
  if (!isThere(KEYRING)) return undefined;
  const format = '$(ORIGIN) $(LABEL) $(SITE)';
  const targets = run('apt-get', ['indextargets', '--format', format, 'Created-By: Packages']);
  return /^Debian Debian (\S+)$/m.exec(targets ?? '')?.[1];
}

/**
 * Downloads a package and all that it depends on. apt gets settings and lists of its own, so that it neither knows nor
 * changes what is installed on this machine.
 *
 * @returns {string[] | undefined} the files
 */
function download(name, { archive, suite, folder }) {
  const apt = join(folder, 'apt');
  for (const part of ['lists/partial', 'cache/archives/partial']) {
    mkdirSync(join(apt, part), { recursive: true });
  }
  const files = {
    'sources.list': `deb [signed-by=${KEYRING}] ${archive} ${suite} main\n`,
    status: '',
    'apt.conf': [
      `Dir::Etc::sourcelist "${apt}/sources.list";`,
      `Dir::Etc::sourceparts "/dev/null";`,
      `Dir::State::lists "${apt}/lists";`,
      `Dir::State::status "${apt}/status";`,
      `Dir::Cache "${apt}/cache";`,
      // A user of its own, which apt would take for downloads, may not write into a temporary folder.
      `APT::Sandbox::User "";`,
    ].join('\n'),
  };
  for (const [file, text] of Object.entries(files)) writeFileSync(join(apt, file), text);
  const env = { APT_CONFIG: join(apt, 'apt.conf'), DEBIAN_FRONTEND: 'noninteractive' };
  const install = ['install', '-y', '-qq', '--download-only', '--no-install-recommends', name];
  if (run('apt-get', ['update', '-qq'], env) === undefined) return undefined;
  if (run('apt-get', install, env) === undefined) return undefined;
  const archives = join(apt, 'cache/archives');
  return readdirSync(archives)
    .filter((file) => file.endsWith('.deb'))
    .map((file) => join(archives, file));
}

/** A program of a newer release needs the C library of that release, and so is started by its loader. */
function withOwnLibraries(program, root, folder) {
  const usr = join(root, 'usr/lib');
  const triplet = readdirSync(usr).find((name) => name.endsWith('-linux-gnu')) ?? '';
  const libraries = join(usr, triplet);
  const loader = readdirSync(libraries).find((name) => /^ld-linux.*\.so\.\d+$/.test(name)) ?? '';
  const wrapper = join(folder, 'redis-server-with-libraries');
  writeFileSync(
    wrapper,
    `#!/bin/sh\nexec '${join(libraries, loader)}' --library-path '${libraries}' '${program}' "$@"\n`,
  );
  chmodSync(wrapper, 0o755);
  return wrapper;
}

/** @returns {string | undefined} what it printed; nothing if it failed */
function run(program, args, env = {}) {
  const { status, stdout } = spawnSync(program, args, {
    encoding: 'utf8',
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: LIMIT_MS,
  });
  return status === 0 ? stdout : undefined;
}

function isThere(file) {
  try {
    accessSync(file);
    return true;
  } catch {
    return false;
  }
}
