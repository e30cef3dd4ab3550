import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Where Debian keeps servers; only root has it on PATH. */
const SERVER_FOLDER = '/usr/sbin';

/** The full path of the first of `names` that can be run from a folder of PATH, or from /usr/sbin. */
export function findProgram(...names: string[]): string | undefined {
  const path = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  const folders = [...path, SERVER_FOLDER];
  return names
    .flatMap((name) => folders.map((folder) => join(folder, name)))
    .find((path) => isProgram(path));
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
