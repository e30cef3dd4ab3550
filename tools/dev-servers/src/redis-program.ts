import { installWithApt, mayInstallWithApt } from './apt.js';
import { findProgram } from './find-program.js';

const waysOut =
  'Set REDIS_URL to a server that may be used, start a Docker engine, or install redis-server ' +
  '(Debian and Ubuntu: apt-get install redis-server, macOS: brew install redis).';

/**
 * The path of `redis-server` or `valkey-server`. If there is none, it is installed with apt when this is root on Debian
 * or Ubuntu, after one line on standard error.
 *
 * @throws Error that names the ways to get a Redis, if there is no program and none could be installed.
 */
export async function findRedisProgram(): Promise<string> {
  const found = findProgram('redis-server', 'valkey-server');
  if (found) return found;

  if (!mayInstallWithApt()) {
    throw new Error(`No redis-server or valkey-server is on PATH. ${waysOut}`);
  }
  try {
    await installWithApt({
      package: 'redis-server',
      program: 'redis-server',
      service: 'redis-server',
    });
  } catch (error) {
    throw new Error(`apt-get could not install redis-server. ${waysOut}`, { cause: error });
  }
  const installed = findProgram('redis-server');
  if (installed) return installed;
  throw new Error(`apt-get installed redis-server, but it is not on PATH. ${waysOut}`);
}
