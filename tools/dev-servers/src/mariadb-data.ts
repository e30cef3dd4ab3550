import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { cleanUpAtExit } from './clean-up.js';

/**
 * Makes the data of a new server in `folder`, with the user `root` without a password, and no database.
 *
 * @returns the path for `--datadir`.
 * @throws Error with the last output of `installDb` if it fails.
 */
export async function makeMariaDbData(installDb: string, folder: string): Promise<string> {
  const data = join(folder, 'data');
  const logFile = join(folder, 'install.log');
  const args = [
    ...['--no-defaults', `--datadir=${data}`, '--auth-root-authentication-method=normal'],
    ...['--skip-test-db', '--innodb-log-file-size=8M', '--innodb-buffer-pool-size=16M'],
    `--tmpdir=${folder}`, // whatever else starts removes the temporary tables that it finds in its own
    ...(process.getuid?.() === 0 ? ['--user=root'] : []),
  ];
  const code = await runInOwnGroup(installDb, args, logFile);
  if (code === 0) return data;
  const lastWords = readFileSync(logFile, 'utf8').trim().split('\n').slice(-12).join('\n');
  throw new Error(`${installDb} failed with exit code ${code}\n${lastWords}`);
}

/** A shell script and the programs that it runs are one group, so they end together when this process ends. */
async function runInOwnGroup(
  program: string,
  args: readonly string[],
  logFile: string,
): Promise<number | null> {
  const log = openSync(logFile, 'a');
  const child = spawn(program, args, { cwd: '/', detached: true, stdio: ['ignore', log, log] });
  closeSync(log);
  const exited = once(child, 'exit') as Promise<[number | null]>;
  const cancelCleanUp =
    child.pid === undefined
      ? () => {}
      : cleanUpAtExit({ kind: 'process', pid: -child.pid, signal: 'SIGKILL' });
  try {
    const [code] = await exited;
    return code;
  } finally {
    cancelCleanUp();
  }
}
