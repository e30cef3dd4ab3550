import { expect } from '@jest/globals';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterTest } from '../../../test/support/after-test.js';
import { endWithTests } from '../../../test/support/end-with-tests.js';
import { UNGUARDED } from '../../../test/support/run-command.js';

/** The built torture program, with a folder for temporary files of its own. */
export class TortureProgram {
  output = '';
  readonly ended: Promise<number | null>;
  readonly #child: ChildProcess;
  readonly #temporary = mkdtempSync(join(tmpdir(), 'torture-test-'));

  constructor(...args: readonly string[]) {
    chmodSync(this.#temporary, 0o1777); // a database server that runs as another user comes here
    // It notices by itself what the guard would notice, and is told to do so on purpose here.
    const env = { ...process.env, ...UNGUARDED, TMPDIR: this.#temporary };
    this.#child = spawn(process.execPath, ['tools/torture/dist/main.js', ...args], { env });
    endWithTests(this.#child);
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    }
    this.ended = once(this.#child, 'close').then(() => this.#child.exitCode);
    afterTest(() => {
      for (const pid of this.processes()) process.kill(pid, 'SIGKILL');
      rmSync(this.#temporary, { recursive: true, force: true });
    });
  }

  interrupt(): void {
    this.#child.kill('SIGINT');
  }

  /** All that have inherited its folder. */
  processes(): number[] {
    const pids = readdirSync('/proc').map(Number).filter(Number.isInteger);
    const isOwn = (pid: number): boolean =>
      readOrEmpty(`/proc/${pid}/environ`).includes(`TMPDIR=${this.#temporary}\0`);
    return pids.filter(isOwn);
  }

  workers(): number[] {
    return this.processes().filter((pid) =>
      readOrEmpty(`/proc/${pid}/cmdline`).includes('worker.js'),
    );
  }

  folders(): string[] {
    return readdirSync(this.#temporary);
  }
}

function readOrEmpty(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return ''; // it has just ended, or is somebody else's
  }
}

/** Runs it until it ends. @returns what it printed */
export async function runTorture(code: number, ...args: readonly string[]): Promise<string> {
  const program = new TortureProgram(...args);
  expect({ code: await program.ended, output: program.output }).toMatchObject({ code });
  return program.output;
}
