/**
 * Builds everything from nothing, for a package that is about to be packed; whatever folder npm was called in. A plain
 * `npm run` in `prepack` would get the options of `npm pack`, and print into its output.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const cwd = fileURLToPath(new URL('..', import.meta.url));
// `npm pack --workspace …` hands its options on, and the root has the scripts.
const env = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^npm_config_workspaces?$/i.test(name)),
);
for (const script of ['clean', 'build']) {
  // What npm prints on standard output belongs to `npm pack --json`.
  const { status } = spawnSync('npm', ['run', '--silent', script], {
    cwd,
    env,
    shell: process.platform === 'win32',
    stdio: ['ignore', process.stderr.fd, 'inherit'],
  });
  if (status !== 0) process.exit(status ?? 1);
}
