/** An application in a folder of its own, into which the packed library is installed like any other package. */
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const LIBRARY = fileURLToPath(new URL('../../libs/nestjs-locked/', import.meta.url));
const LIMIT_MS = 300_000;

/** A cell that cannot be run on this machine, and why. */
export class Skipped extends Error {}

/** @param {string} folder @returns {string} the path of the packed library, without building it again */
export function packLibrary(folder) {
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder];
  const { stdout, status, stderr } = spawnSync('npm', args, { cwd: LIBRARY, encoding: 'utf8' });
  if (status !== 0) throw new Error(`npm pack failed: ${stderr}`);
  return join(folder, JSON.parse(stdout)[0].filename);
}

export class GeneratedApp {
  constructor(folder, tarball, redisUrl) {
    this.folder = folder;
    this.redisUrl = redisUrl;
    this.tarball = tarball;
    mkdirSync(folder, { recursive: true });
  }

  /** @param {string} path @param {string | object} content */
  write(path, content) {
    const file = join(this.folder, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content, null, 2));
  }

  /** Installs packages and the library beside them. @param {object} manifest what package.json has besides */
  async install(dependencies, manifest = {}) {
    this.write('package.json', {
      name: 'generated-app',
      private: true,
      ...manifest,
      dependencies: { ...dependencies, 'nestjs-locked': `file:${this.tarball}` },
    });
    await this.run('npm', [
      'install',
      '--no-audit',
      '--no-fund',
      '--no-package-lock',
      '--ignore-scripts',
    ]);
  }

  /** @throws Error with what it printed, if it does not end well */
  async run(program, args, env = {}) {
    const { code, output } = await this.try(program, args, env);
    if (code === 0) return output;
    throw new Error(
      `${program} ${args.join(' ')} ended with ${code}:\n${output.trim().slice(-3_000)}`,
    );
  }

  /** Runs a program of the application, or one on PATH. */
  try(program, args, env = {}) {
    return new Promise((resolve) => {
      const child = spawn(program, args, {
        cwd: this.folder,
        env: {
          ...process.env,
          PATH: `${join(this.folder, 'node_modules/.bin')}:${process.env['PATH']}`,
          NODE_OPTIONS: '',
          NO_COLOR: '1',
          REDIS_URL: this.redisUrl,
          ...env,
        },
        stdio: ['ignore', 'pipe', 'pipe'],
        timeout: LIMIT_MS,
      });
      let output = '';
      for (const stream of [child.stdout, child.stderr]) {
        stream.on('data', (chunk) => (output += chunk));
      }
      child.on('error', (error) => resolve({ code: 127, output: error.message }));
      child.on('close', (code, signal) => resolve({ code: code ?? signal, output }));
    });
  }
}
