import { existsSync, readdirSync } from 'node:fs';
import { chmod, mkdir, rename, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** The path of libfaketime: where it is usually installed, or where the environment says. */
export const faketime: string | undefined = [
  process.env['LIBFAKETIME'] ?? '',
  ...(existsSync('/usr/lib') ? readdirSync('/usr/lib') : []).map((name) =>
    join('/usr/lib', name, 'faketime', 'libfaketime.so.1'),
  ),
  '/usr/local/lib/faketime/libfaketime.so.1',
].find((file) => existsSync(file));

/** The wall clock of a server, which can be set while the server runs. */
export class ServerClock {
  /** From here, the server reads how many seconds its clock is after the real one. */
  readonly #file: string;
  readonly #programs: string;
  #seconds = 0;

  private constructor(programs: string, file: string) {
    this.#programs = programs;
    this.#file = file;
  }

  /**
   * @param folder an empty one of its own, or one that does not exist
   * @throws Error if there is no libfaketime
   */
  static async create(folder: string): Promise<ServerClock> {
    if (faketime === undefined) throw new Error('there is no libfaketime on this machine');
    const programs = join(folder, 'programs');
    await mkdir(programs, { recursive: true });
    const file = join(folder, 'clock-offset');
    await writeFile(file, '+0\n');
    const path = process.env['PATH'] ?? '';
    for (const name of ['redis-server', 'valkey-server']) {
      await writeFile(join(programs, name), wrapper(name, path, faketime, file));
      await chmod(join(programs, name), 0o755);
    }
    return new ServerClock(programs, file);
  }

  /** Starts a server that has this clock. One after the other: the way to its program is the same for all. */
  async start<Started>(start: () => Promise<Started>): Promise<Started> {
    const path = process.env['PATH'] ?? '';
    process.env['PATH'] = this.#programs + delimiter + path; // found first
    try {
      return await start();
    } finally {
      process.env['PATH'] = path;
    }
  }

  /** Sets the clock. */
  async step(seconds: number): Promise<void> {
    this.#seconds += seconds;
    // The server reads the file whenever it reads its clock, so the file is replaced in one step.
    await writeFile(`${this.#file}.new`, `${this.#seconds < 0 ? '' : '+'}${this.#seconds}\n`);
    await rename(`${this.#file}.new`, this.#file);
    await sleep(20);
  }
}

/** libc comes right after libfaketime, because otherwise the allocator of Redis and libfaketime wait for each other. */
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
