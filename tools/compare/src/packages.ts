import { existsSync, readFileSync } from 'node:fs';

/** The name of our own side, and of its package. */
export const OURS = 'nestjs-locked';

export interface InstalledPackage {
  readonly name: string;
  readonly version: string;
}

/** What is installed under this name: here, or in the workspace above if nothing is installed here. */
export function installedPackage(alias: string): InstalledPackage {
  const places = ['../node_modules/', '../../../node_modules/'].map(
    (folder) => new URL(`${folder}${alias}/package.json`, import.meta.url),
  );
  const place = places.find((url) => existsSync(url));
  if (place === undefined) throw new Error(`'${alias}' is not installed`);
  const { name, version } = JSON.parse(readFileSync(place, 'utf8')) as InstalledPackage;
  return { name, version: version.replace(/^v/, '') };
}
