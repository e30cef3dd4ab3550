/**
 * Completes package-lock.json so that `npm ci` accepts it, which npm itself does not do (npm/cli#4828); run by hand
 * after each change of a dependency (`npm run lock:complete`).
 *
 * A package with native parts lists one optional package per platform. `npm install` may leave out
 * of the lock file those that do not fit the machine it runs on, and `npm ci` of npm 11 then refuses
 * the file. Each missing one gets an entry with the `os` and `cpu` by which npm skips it elsewhere.
 * Addresses of a registry are removed: the lock file must be valid behind any mirror.
 */
import { readFileSync, writeFileSync } from 'node:fs';

const operatingSystems = {
  aix: 'aix',
  android: 'android',
  darwin: 'darwin',
  freebsd: 'freebsd',
  linux: 'linux',
  netbsd: 'netbsd',
  openbsd: 'openbsd',
  openharmony: 'openharmony',
  sunos: 'sunos',
  win32: 'win32',
  windows: 'win32',
};
const processors = 'arm arm64 ia32 loong64 mips64el ppc64 riscv64 s390x wasm32 x64'.split(' ');

const lockFile = new URL('../package-lock.json', import.meta.url);
const lock = JSON.parse(readFileSync(lockFile, 'utf8'));

let added = 0;
for (const [location, entry] of Object.entries(lock.packages)) {
  for (const [name, range] of Object.entries(entry.optionalDependencies ?? {})) {
    if (isLocked(location, name)) continue;
    lock.packages[`node_modules/${name}`] = platformEntry(name, range, entry.dev === true);
    added += 1;
  }
}

let removed = 0;
for (const entry of Object.values(lock.packages)) {
  if (!/^https?:/.test(entry.resolved ?? '')) continue;
  delete entry.resolved;
  removed += 1;
}

lock.packages = Object.fromEntries(
  Object.entries(lock.packages).sort(([a], [b]) => a.localeCompare(b, 'en')),
);
writeFileSync(lockFile, `${JSON.stringify(lock, null, 2)}\n`);
console.log(`package-lock.json: ${added} platform packages added, ${removed} addresses removed`);

/** Whether the look-up of `name` from `location` (upwards through node_modules) finds an entry. */
function isLocked(location, name) {
  const parents = location.split('/node_modules/').map((_, i, parts) => parts.slice(0, i + 1));
  return ['', ...parents.map((parts) => `${parts.join('/node_modules/')}/`)].some(
    (folder) => `${folder}node_modules/${name}` in lock.packages,
  );
}

/** The entry of a platform package that is not here; its platform is read from its name. */
function platformEntry(name, range, dev) {
  const words = name.split(/[/-]/);
  const os = operatingSystems[words.find((word) => word in operatingSystems)];
  const cpu = words.find((word) => processors.includes(word));
  const version = range.replace(/^[~^]/, '');
  if (!/^\d+\.\d+\.\d+/.test(version) || (!os && !cpu)) {
    throw new Error(
      `${name}@${range} is optional, missing from package-lock.json, and its name and version do ` +
        'not say which platform it is for: add its entry to package-lock.json by hand',
    );
  }
  return {
    version,
    ...(dev && { dev }),
    optional: true,
    ...(os && { os: [os] }),
    ...(cpu && { cpu: [cpu] }),
  };
}
