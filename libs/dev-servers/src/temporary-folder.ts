import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cleanUpAtExit } from './clean-up.js';

/** A folder of its own below the system's temporary folder. */
export interface TemporaryFolder {
  readonly path: string;
  /** Removes the folder and everything in it; a second call does nothing. */
  remove(): Promise<void>;
}

/** Makes a new folder, readable by its owner only, which also goes when this process ends. */
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
