import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LIBRARY } from '../api/entry-points.js';
import { TemporaryProject } from '../api/temporary-project.js';
import { afterTest } from '../support/after-test.js';
import { endWithTests } from '../support/end-with-tests.js';
import { eventually } from '../support/eventually.js';
import { runCommand, UNGUARDED } from '../support/run-command.js';

/** Packages of a new application that no test uses. */
const LEFT_OUT = /eslint|oxlint|prettier|coverage|globals|ts-loader|ts-node|@nestjs\/mau/;

const ENVIRONMENT = { ...UNGUARDED, NO_COLOR: '1', FORCE_COLOR: '0' };

/** An application made by the command line interface of Nest, called `shop`. Its packages come from a registry. */
export class GeneratedApp {
  readonly #project = new TemporaryProject();
  readonly #folder = join(this.#project.folder, 'shop');

  /**
   * Makes the application, and installs the packed library among its packages.
   *
   * @param create the command that makes it, for example `npx @nestjs/cli new shop`
   * @param install the command that installs the library, for example `npm install nestjs-locked`
   */
  async make(create: string, install: string): Promise<void> {
    const [packed] = await Promise.all([
      (library ??= packLibrary()),
      // Without its packages, which are installed once, together with the library.
      run(`${create.replace('npx', 'npx --yes')} --skip-install --skip-git`, this.#project.folder),
    ]);
    const file = join(this.#project.folder, 'nestjs-locked.tgz');
    writeFileSync(file, packed);
    const manifest = JSON.parse(this.read('package.json')) as { devDependencies: object };
    const packages = Object.entries(manifest.devDependencies);
    const devDependencies = Object.fromEntries(packages.filter(([name]) => !LEFT_OUT.test(name)));
    this.write('package.json', JSON.stringify({ ...manifest, devDependencies }));
    const command = install.replace('nestjs-locked', file);
    await this.run(`${command} --no-audit --no-fund --ignore-scripts --prefer-offline`);
  }

  read(path: string): string {
    return readFileSync(join(this.#folder, path), 'utf8');
  }

  write(path: string, text: string): void {
    this.#project.write(join('shop', path), text);
  }

  /** Makes a package available that is installed in this repository. */
  link(name: string): void {
    this.#project.link(name); // in the folder above, where Node looks next
  }

  /** @returns what the command printed @throws Error with that, if it does not end well */
  run(command: string): Promise<string> {
    return run(command, this.#folder);
  }

  /** Runs `npm test`. @returns how many of its files have passed */
  async passedSpecs(): Promise<number> {
    const output = await this.run('npm test');
    const [, passed] = /^(?:Test Suites: |\s*Test Files\s+)(\d+) passed/m.exec(output) ?? [];
    return Number(passed);
  }

  /**
   * Starts the application, and waits until it listens.
   *
   * @param command with its port: `PORT=3001 npm start`
   * @returns tells it to stop, as a deployment does
   */
  async start(command: string): Promise<() => void> {
    // A group of its own, because npm does not pass signals on to the application.
    const child = spawn('sh', ['-c', command], {
      cwd: this.#folder,
      detached: true,
      env: { ...process.env, ...ENVIRONMENT },
    });
    endWithTests(child);
    let isStopped = false;
    const stop = (): void => {
      if (isStopped || child.exitCode !== null || child.pid === undefined) return;
      isStopped = true;
      process.kill(-child.pid, 'SIGTERM');
    };
    afterTest(stop);
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (text: Buffer) => (output += text.toString()));
    }
    const [, port] = /PORT=(\d+)/.exec(command) ?? [];
    await eventually(() => {
      if (child.exitCode !== null) throw new Error(`${command} has ended: ${output}`);
      return fetch(`http://localhost:${port}`);
    });
    return stop;
  }

  remove(): void {
    this.#project.remove();
  }
}

/** The package as it would be published now: all applications of a spec file install the same one. */
let library: Promise<Buffer> | undefined;

async function packLibrary(): Promise<Buffer> {
  const project = new TemporaryProject();
  try {
    const pack = ['pack', '--json', '--ignore-scripts', '--pack-destination', project.folder];
    const { stdout } = await runCommand('npm', pack, LIBRARY, UNGUARDED);
    const [{ filename }] = JSON.parse(stdout) as [{ filename: string }];
    return readFileSync(join(project.folder, filename));
  } finally {
    project.remove();
  }
}

async function run(command: string, cwd: string): Promise<string> {
  const { code, stdout, stderr } = await runCommand('sh', ['-c', command], cwd, ENVIRONMENT);
  if (code !== 0) throw new Error(`${command} has ended with ${code}:\n${stdout}${stderr}`);
  return stdout + stderr;
}
