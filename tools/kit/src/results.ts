import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** What is in the file of the highest version in a folder (`1.2.0.json`); undefined if there is none. */
export function newestResults<Results>(folder: string): Results | undefined {
  if (!existsSync(folder)) return undefined;
  const newest = readdirSync(folder)
    .filter((name) => /^\d.*\.json$/.test(name))
    .sort((a, b) => a.localeCompare(b, 'en', { numeric: true }))
    .at(-1);
  if (newest === undefined) return undefined;
  return JSON.parse(readFileSync(join(folder, newest), 'utf8')) as Results;
}
