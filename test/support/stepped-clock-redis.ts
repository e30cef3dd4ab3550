import { RedisServer } from 'dev-servers';
import { existsSync, readdirSync } from 'node:fs';
import { chmod, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterTest } from './after-test.js';

/** The path of libfaketime where Debian, Ubuntu and `make install` put it; undefined if it is not installed. */
export const faketime: string | undefined = [
  ...(existsSync('/usr/lib') ? readdirSync('/usr/lib').map((name) => `/usr/lib/${name}`) : []),
  '/usr/local/lib',
]
  .map((folder) => join(folder, 'faketime', 'libfaketime.so.1'))
  .find((file) => existsSync(file));

export interface SteppedClockRedis {
  readonly server: RedisServer;
  /** Sets the wall clock of the server to this many seconds ahead of the real one. */
  readonly setClock: (seconds: number) => Promise<void>;
}

/** Starts a server whose wall clock can be set at any time. Stopped after the test. */
export async function startSteppedClockRedis(): Promise<SteppedClockRedis> {
  if (faketime === undefined) throw new Error('libfaketime is not installed');
  const folder = await mkdtemp(join(tmpdir(), 'stepped-clock-'));
  const offset = join(folder, 'offset');
  const setClock = async (seconds: number): Promise<void> => {
    // The server reads the file whenever it reads its clock, so the file is replaced atomically.
    await writeFile(`${offset}.new`, `${seconds < 0 ? '' : '+'}${seconds}\n`);
    await rename(`${offset}.new`, offset);
  };
  await setClock(0);
  const path = process.env['PATH'] ?? '';
  for (const name of ['redis-server', 'valkey-server']) {
    await writeFile(join(folder, name), wrapper(name, path, faketime, offset));
    await chmod(join(folder, name), 0o755);
  }
  process.env['PATH'] = folder + delimiter + path; // found before the real programs
  let server: RedisServer;
  try {
    server = await RedisServer.start();
  } finally {
    process.env['PATH'] = path;
  }
  afterTest(async () => {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  });
  return { server, setClock };
}

/** libc must come right after libfaketime; otherwise libfaketime and the allocator of Redis deadlock. */
function wrapper(name: string, path: string, library: string, offset: string): string {
  const settings = [
    `PATH='${path}'`,
    `LD_PRELOAD='${library}:libc.so.6'`,
    `FAKETIME_TIMESTAMP_FILE='${offset}'`,
    'FAKETIME_NO_CACHE=1',
    'FAKETIME_DONT_FAKE_MONOTONIC=1',
  ];
  return `#!/bin/sh\nexec env ${settings.join(' ')} ${name} "$@"\n`;
}
