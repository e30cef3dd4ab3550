import { existsSync, readdirSync } from 'node:fs';
import { chmod, mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
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
  #seconds = 0;

  private constructor(
    /** Runs the server with this clock. */
    readonly program: string,
    /** From here, the server reads how many seconds its clock is after the real one. */
    private readonly file: string,
  ) {}

  /**
   * @param folder one of its own, which does not exist yet
   * @param program the path of the server
   * @throws Error if there is no libfaketime
   */
  static async create(folder: string, program: string): Promise<ServerClock> {
    if (faketime === undefined) throw new Error('there is no libfaketime on this machine');
    await mkdir(folder);
    const file = join(folder, 'offset');
    await writeFile(file, '+0\n');
    const wrapper = join(folder, 'server');
    await writeFile(wrapper, wrapperOf(program, faketime, file));
    await chmod(wrapper, 0o755);
    return new ServerClock(wrapper, file);
  }

  /** Sets the clock. */
  async step(seconds: number): Promise<void> {
    this.#seconds += seconds;
    // The server reads the file whenever it reads its clock, so the file is replaced in one step.
    await writeFile(`${this.file}.new`, `${this.#seconds < 0 ? '' : '+'}${this.#seconds}\n`);
    await rename(`${this.file}.new`, this.file);
    await sleep(20);
  }
}

/** libc comes right after libfaketime, because otherwise the allocator of Redis and libfaketime wait for each other. */
function wrapperOf(program: string, library: string, offset: string): string {
  const settings = [
    `LD_PRELOAD='${library}:libc.so.6'`,
    `FAKETIME_TIMESTAMP_FILE='${offset}'`,
    'FAKETIME_NO_CACHE=1',
    'FAKETIME_DONT_FAKE_MONOTONIC=1',
  ];
  return `#!/bin/sh\nexec env ${settings.join(' ')} '${program}' "$@"\n`;
}
