import { existsSync, readdirSync } from 'node:fs';
import { chmod, mkdir, rename, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Faults, noted } from '../faults/fault.js';
import { SingleStage } from './single.js';

/** The path of libfaketime: where it is usually installed, or where the environment says. */
export const faketime: string | undefined = [
  process.env['LIBFAKETIME'] ?? '',
  ...(existsSync('/usr/lib') ? readdirSync('/usr/lib') : []).map((name) =>
    join('/usr/lib', name, 'faketime', 'libfaketime.so.1'),
  ),
  '/usr/local/lib/faketime/libfaketime.so.1',
].find((file) => existsSync(file));

/** The longest lease may appear to last this much longer. */
const BACK_MS = 3_000;

/** One server whose wall clock can be set while it runs. */
export class SteppedClockStage extends SingleStage {
  /** From here, the server reads how many seconds its clock is after the real one. */
  #file = '';
  #seconds = 0;

  /** @throws Error if there is no libfaketime */
  static override async start(folder: string): Promise<SteppedClockStage> {
    if (faketime === undefined) throw new Error('there is no libfaketime on this machine');
    const programs = join(folder, 'programs');
    await mkdir(programs);
    const file = join(folder, 'clock-offset');
    await writeFile(file, '+0\n');
    const path = process.env['PATH'] ?? '';
    for (const name of ['redis-server', 'valkey-server']) {
      await writeFile(join(programs, name), wrapper(name, path, faketime, file));
      await chmod(join(programs, name), 0o755);
    }
    process.env['PATH'] = programs + delimiter + path; // found first
    try {
      const stage = (await super.start(folder, [])) as SteppedClockStage;
      stage.#file = file;
      return stage;
    } finally {
      process.env['PATH'] = path;
    }
  }

  /** Sets the server's clock. */
  async step(seconds: number): Promise<void> {
    this.#seconds += seconds;
    // The server reads the file whenever it reads its clock, so the file is replaced in one step.
    await writeFile(`${this.#file}.new`, `${this.#seconds < 0 ? '' : '+'}${this.#seconds}\n`);
    await rename(`${this.#file}.new`, this.#file);
    await sleep(20);
  }
}

/** Sets Redis' wall clock. A step forward ends leases early; a step back makes them last longer. */
export const CLOCK_STEPS: Faults<SteppedClockStage> = {
  'clock stepped forward': (scene) =>
    noted(scene, { disturbs: 'all', forgets: 'all', notice: 'renewal' }, () =>
      scene.stage.step(scene.random.between(1, 60)),
    ),
  'clock stepped back': (scene) =>
    noted(scene, { disturbs: 'all', healingMs: BACK_MS + 3_500 }, () =>
      scene.stage.step(-scene.random.between(1, BACK_MS / 1_000)),
    ),
};

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
