/**
 * Prints the bill of materials (CycloneDX) of the package that is published: the library, and what is installed with
 * it. `npm sbom` reads a whole workspace only, so it is given the library by itself, with its part of the lock file.
 *
 *     npm run --silent package:sbom > nestjs-locked.cdx.json
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PACKAGE_FILE } from './package/published-readme.mjs';

const { name, version, description, license, author, repository, homepage, dependencies } =
  readJson(PACKAGE_FILE);
// Peers are not in it: the application chooses and installs them.
const manifest = {
  name,
  version,
  description,
  license,
  author,
  repository,
  homepage,
  dependencies,
};
const locked = readJson(new URL('../package-lock.json', import.meta.url)).packages;
const packages = { '': manifest };
for (const names = Object.keys(dependencies); names.length > 0;) {
  const path = `node_modules/${names.pop()}`;
  if (path in packages) continue;
  packages[path] = locked[path];
  names.push(...Object.keys(locked[path].dependencies ?? {}));
}

const folder = mkdtempSync(join(tmpdir(), 'nestjs-locked-sbom-'));
try {
  // npm takes the name of the folder.
  const cwd = join(folder, name);
  mkdirSync(cwd);
  const lock = { name, version, lockfileVersion: 3, packages };
  writeFileSync(join(cwd, 'package.json'), JSON.stringify(manifest));
  writeFileSync(join(cwd, 'package-lock.json'), JSON.stringify(lock));
  const args = ['sbom', '--package-lock-only', '--sbom-format', 'cyclonedx'];
  const shell = process.platform === 'win32';
  process.exitCode = spawnSync('npm', args, { cwd, shell, stdio: 'inherit' }).status ?? 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function readJson(file) {
  return JSON.parse(readFileSync(file, 'utf8'));
}
