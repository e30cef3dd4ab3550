import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cleanUpAtExit } from './clean-up.js';

/** A new folder below the system's temporary folder. */
export interface TemporaryFolder {
  readonly path: string;
  /** Removes the folder and everything in it; a second call does nothing. */
  remove(): Promise<void>;
}

/** Makes a new folder that only its owner can read, and that is also removed when this process ends. */
export function createTemporaryFolder(prefix: string): TemporaryFolder {
  const path = mkdtempSync(join(tmpdir(), prefix));
  const cancelCleanUp = cleanUpAtExit({ kind: 'folder', path });
  return {
    path,
    async remove() {
      await rm(path, { recursive: true, force: true, maxRetries: 5 });
      cancelCleanUp();
    },
  };
}
