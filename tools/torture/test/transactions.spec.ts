import { describe, expect, it } from '@jest/globals';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterTest } from '../../../test/support/after-test.js';
import { endWithTests } from '../../../test/support/end-with-tests.js';
import { eventually } from '../../../test/support/eventually.js';
import { SALE_FEATURES } from '../src/transactions/sale-plan.js';

/** The built torture program, with a folder for temporary files of its own. */
class Torture {
  output = '';
  readonly ended: Promise<number | null>;
  readonly #child: ChildProcess;
  readonly #temporary = mkdtempSync(join(tmpdir(), 'torture-test-'));

  constructor(...args: string[]) {
    chmodSync(this.#temporary, 0o1777); // a database server that runs as another user comes here
    const env: NodeJS.ProcessEnv = { ...process.env, TMPDIR: this.#temporary };
    delete env['NODE_OPTIONS']; // jest's
    const program = ['tools/torture/dist/main.js', '--transactions', '--seed', '7', ...args];
    this.#child = spawn(process.execPath, program, { env });
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
    return pids.filter((pid) => environmentOf(pid).includes(`TMPDIR=${this.#temporary}\0`));
  }

  workers(): number[] {
    return this.processes().filter((pid) => commandOf(pid).includes('sales-worker'));
  }

  folders(): string[] {
    return readdirSync(this.#temporary);
  }
}

const environmentOf = (pid: number): string => readOrEmpty(`/proc/${pid}/environ`);
const commandOf = (pid: number): string => readOrEmpty(`/proc/${pid}/cmdline`);

function readOrEmpty(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return ''; // it has just ended, or is somebody else's
  }
}

async function seesViolations(violations: readonly RegExp[], ...args: string[]): Promise<void> {
  const torture = new Torture(...args);
  expect({ code: await torture.ended, output: torture.output }).toMatchObject({ code: 1 });
  for (const { source } of violations) {
    expect(torture.output).toMatch(new RegExp(`VIOLATION of books: .*${source}`));
  }
}

describe('torture of transactions', () => {
  it('a short run is clean: written is what was acknowledged, and nothing else [D94]', async () => {
    const torture = new Torture('--seconds', '4', '--seed', '1');
    const code = await torture.ended;
    expect(torture.output).toMatch(/\nclean\n$/);
    expect(code).toBe(0);
  });

  const lostPieces = /\d: \d+ pieces are gone, \d+ rows were written/;
  it.each([
    ['unknown', '10', [lostPieces]],
    ['inside', '10', [lostPieces]],
    [
      'branches,answer',
      '10',
      [/has rows of (?:the runs |run \d, its last)/, /was acknowledged, and written by half: \{\}/],
    ],
    // In longer runs, processes are killed, and what they keep is a reason to have waited in vain.
    ['order', '12', [/\d+ of \d+ calls have waited for their locks in vain/]],
  ])('sees what is broken on purpose: %s [D94]', async (rules, seconds, violations) => {
    // Long enough to see it on a machine that does other things as well.
    await seesViolations(violations, '--seconds', seconds, '--break', rules);
  });

  it.each([
    [
      'lost-locks',
      'unknown',
      '10',
      /\S+ was written although it had lost a lock before its COMMIT/,
    ],
    // Three of some 500 calls meet it, and none of as few as a busy machine makes in so short a time.
    [
      'audits',
      'audits',
      '40',
      /the audit row of \S+, which asks for no lock, was refused: LOCK_IN_/,
    ],
    ['cut-commits', 'unknown', '10', /the COMMIT of \S+ was not given up for \d+ ms/],
  ])('%s show what is broken on purpose: %s', async (feature, rule, seconds, violation) => {
    const others = SALE_FEATURES.filter((name) => name !== feature).join();
    const args = ['--seconds', seconds, '--break', rule, '--without', others];
    await seesViolations([violation], ...args);
  });

  const onLinux = process.platform === 'linux' ? it : it.skip;
  onLinux('leaves neither process nor folder behind after Ctrl-C', async () => {
    const torture = new Torture('--seconds', '60');
    await eventually(() => expect(torture.workers()).toHaveLength(3), 60_000); // after a database was made
    torture.interrupt();
    await torture.ended;
    await eventually(() => expect([torture.processes(), torture.folders()]).toEqual([[], []]));
  });

  it.each([
    [['--seed', 'x'], "--seed is 'x': give a whole number from 0"],
    [
      ['--break', 'all'],
      "--break is 'all': give one of unknown, inside, branches, answer, order, audits",
    ],
  ])('refuses %j, and says what is allowed', async (args, message) => {
    const torture = new Torture(...args);
    expect(await torture.ended).toBe(1);
    expect(torture.output).toContain(message);
  });
});
