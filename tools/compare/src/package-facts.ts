import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { installedManifest, ourManifest, OURS, OURS_FOLDER } from './packages.js';

/** What a package says about itself, and how large it is. */
export interface PackageFacts {
  readonly library: string;
  readonly version: string;
  /** In bytes: what npm downloads, and what it then writes. */
  readonly download: number;
  readonly unpacked: number;
  /** The names of its dependencies, which are installed with it. */
  readonly dependencies: readonly string[];
  /** What the application must have: names and ranges. */
  readonly peers: Readonly<Record<string, string>>;
  /** Those of `peers` that are only needed for a part of it. */
  readonly optional: readonly string[];
}

const run = promisify(execFile);

/** @param alias the name under which the package is installed; ours is packed from its folder, without a build */
export async function packageFacts(alias: string): Promise<PackageFacts> {
  const isOurs = alias === OURS;
  const manifest = isOurs ? ourManifest() : installedManifest(alias);
  const { name, version, dependencies = {}, peerDependencies = {} } = manifest;
  const optional = Object.entries(manifest.peerDependenciesMeta ?? {});
  const pack = ['pack', '--dry-run', '--json', '--ignore-scripts'];
  const { stdout } = await run('npm', isOurs ? pack : [...pack, `${name}@${version}`], {
    ...(isOurs && { cwd: OURS_FOLDER }),
    maxBuffer: 1e8,
  });
  const [packed] = JSON.parse(stdout) as [{ size: number; unpackedSize: number }];
  return {
    library: name,
    version: version.replace(/^v/, ''),
    download: packed.size,
    unpacked: packed.unpackedSize,
    dependencies: Object.keys(dependencies).sort(),
    peers: peerDependencies,
    optional: optional.filter(([, { optional }]) => optional).map(([peer]) => peer),
  };
}
