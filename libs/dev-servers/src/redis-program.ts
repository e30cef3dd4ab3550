import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { findProgram } from './find-program.js';

const run = promisify(execFile);

const waysOut =
  'Set REDIS_URL to a server that may be used, start a Docker engine, or install redis-server ' +
  '(Debian and Ubuntu: apt-get install redis-server, macOS: brew install redis).';

/**
 * The path of `redis-server` or `valkey-server`. When there is none, root on Debian or Ubuntu gets
 * it from apt, after one line on standard error.
 *
 * @throws Error naming the ways to get a Redis when there is no program and none could be installed.
 */
export async function findRedisProgram(): Promise<string> {
  const found = findProgram('redis-server', 'valkey-server');
  if (found) return found;

  if (process.getuid?.() !== 0 || !findProgram('apt-get')) {
    throw new Error(`No redis-server or valkey-server is on PATH. ${waysOut}`);
  }
  process.stderr.write('redis-server is not installed: running apt-get install redis-server\n');
  try {
    await installWithApt();
  } catch (error) {
    throw new Error(`apt-get could not install redis-server. ${waysOut}`, { cause: error });
  }
  const installed = findProgram('redis-server');
  if (installed) return installed;
  throw new Error(`apt-get installed redis-server, but it is not on PATH. ${waysOut}`);
}

/** Installs the package and stops the service it brings: only the program is wanted. */
async function installWithApt(): Promise<void> {
  const install = [
    'command -v redis-server >/dev/null && exit',
    'apt-get update -qq',
    'apt-get install -y -qq --no-install-recommends redis-server',
    existsSync('/run/systemd/system')
      ? 'systemctl disable --now redis-server'
      : 'service redis-server stop || true',
  ].join('\n');

  // Two test processes may come here at the same time; apt allows one. Any common folder will do.
  await run('flock', ['/var/lib/dpkg', 'sh', '-ec', install], {
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    timeout: 300_000,
  });
}
