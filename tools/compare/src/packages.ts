import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The name of our own side, and of its package. */
export const OURS = 'nestjs-locked';
/** Its sources: what is installed here is a copy of what was built. */
export const OURS_FOLDER = fileURLToPath(new URL('../../../libs/nestjs-locked/', import.meta.url));

export interface InstalledPackage {
  readonly name: string;
  readonly version: string;
}

interface Manifest extends InstalledPackage {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
}

/** What is installed under this name: here, or in the workspace above if nothing is installed here. */
export function installedPackage(alias: string): InstalledPackage {
  const { name, version } = installedManifest(alias);
  return { name, version: version.replace(/^v/, '') };
}

export function installedManifest(alias: string): Manifest {
  const places = ['../node_modules/', '../../../node_modules/'].map(
    (folder) => new URL(`${folder}${alias}/package.json`, import.meta.url),
  );
  const place = places.find((url) => existsSync(url));
  if (place === undefined) throw new Error(`'${alias}' is not installed`);
  return readManifest(place);
}

/** What our own package says, built or not. */
export function ourManifest(): Manifest {
  return readManifest(`${OURS_FOLDER}package.json`);
}

function readManifest(file: string | URL): Manifest {
  return JSON.parse(readFileSync(file, 'utf8')) as Manifest;
}
