import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type CommandResult, runCommand } from '../support/run-command.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc');

/** A project outside this repository, with our packages as if they were installed. */
export class TemporaryProject {
  readonly folder = mkdtempSync(join(tmpdir(), 'nestjs-locked-project-'));

  /** Writes a file, in folders that are made as needed. */
  write(path: string, content: string | object): string {
    const file = join(this.folder, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
    return file;
  }

  /** Makes packages available that are installed here; their own dependencies are found from where they are. */
  link(...names: readonly string[]): void {
    for (const name of names) this.linkAs(name, name);
  }

  /** The same for one package that is installed here under another name. */
  linkAs(name: string, installed: string): void {
    const link = join(this.folder, 'node_modules', name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(ROOT, 'node_modules', installed), link, 'junction');
  }

  /** Copies the listed files of a package, so that it is found like an installed one and has no way back. */
  copy(name: string, from: string, files: readonly string[]): void {
    for (const file of files) {
      cpSync(join(from, file), join(this.folder, 'node_modules', name, file));
    }
  }

  node(args: readonly string[], env: Record<string, string> = {}): Promise<CommandResult> {
    return runCommand(process.execPath, ['--enable-source-maps', ...args], this.folder, env);
  }

  /** Runs the compiler; its messages are on standard output. */
  tsc(...args: readonly string[]): Promise<CommandResult> {
    return runCommand(process.execPath, [TSC, ...args, '--pretty', 'false'], this.folder);
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
