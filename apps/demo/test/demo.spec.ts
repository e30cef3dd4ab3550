import { afterEach, describe, expect, it } from '@jest/globals';
import { isAlive } from 'dev-servers';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { LIBRARY } from '../../../test/api/entry-points.js';
import { endWithTests } from '../../../test/support/end-with-tests.js';
import { eventually } from '../../../test/support/eventually.js';
import { runCommand } from '../../../test/support/run-command.js';
import { type Receipt, Sale } from '../src/sale.js';
import type { Books } from '../src/shop-database.js';
import { Trial } from '../src/trap/trial.js';
import { type Variant, VARIANTS } from '../src/trap/variant.js';

const OPERATOR = join(LIBRARY, 'dist/cli/main.js');
const MAIN_FILE = fileURLToPath(new URL('../dist/main.js', import.meta.url));

describe('npm run demo', () => {
  let demo: Demo;
  afterEach(() => demo.dispose());

  it('sells exactly with the lock, and wrongly without, and shows the trap and the ways out', async () => {
    demo = new Demo('--quick', '--seed', '7');

    expect({ exitCode: await demo.ended, output: demo.output }).toMatchObject({ exitCode: 0 });
    expect(demo.row('result')).toEqual(['WRONG', 'exact', 'WRONG', 'exact']);
    expect(demo.row('final stock')).toMatchObject({ 1: '0', 3: '0' });
    expect(demo.row('oversold')).toMatchObject({ 1: '0', 3: '0' });
    expect(demo.output).toContain('Every sale with the lock was exact.');

    // plain adapter, join, reject, restart, right nesting: the first two are only reported
    expect(demo.row('callers')).toEqual(['20', '20', '20', '20', '20']);
    expect(demo.row('succeeded').slice(2)).toEqual(['0', '20', '20']);
    expect(demo.row('LOCK_IN_TRANSACTION').slice(2)).toEqual(['20', '0', '0']);
    expect(demo.row('the truth').slice(2)).toEqual(['100', '80', '80']);
    expect(demo.row('stock').slice(2)).toEqual(['exact', 'exact', 'exact']);
    expect(demo.output).toContain('Out of the trap');
    await demo.leavesNothing();
  });

  it('goes on with --keep until Ctrl-C, and an operator finds and frees the product that is stuck', async () => {
    demo = new Demo('--quick', '--keep', '--seed', '7');
    await demo.says('Ctrl-C ends everything.');
    const [, redisUrl = ''] = /--redis (\S+)/.exec(demo.output) ?? [];
    const [health = ''] = /http:\S+\/health/.exec(demo.output) ?? [];
    const [metrics = ''] = /http:\S+\/metrics/.exec(demo.output) ?? [];
    const operator = async (...args: string[]): Promise<string> => {
      const { stdout } = await runCommand(process.execPath, [OPERATOR, ...args], process.cwd(), {
        REDIS_URL: redisUrl,
      });
      return stdout;
    };
    await eventually(async () =>
      expect(await operator('ls')).toMatch(/stock:lamp .* StocktakeService\.count .* [1-9]\d*\n/),
    );
    expect(await operator('release', 'stock:lamp', '--yes')).toContain('StocktakeService.count');
    await eventually(async () =>
      expect(await operator('ls', 'stock:lamp')).not.toContain('StocktakeService.count'),
    );
    expect(await (await fetch(health)).json()).toMatchObject({ status: 'ok' });
    expect(await (await fetch(metrics)).text()).toContain('nestjs_locked_wait_duration_count{');
    const [, page = '', password = ''] =
      /(http\S+\/locks) .* password (\w+)/.exec(demo.output) ?? [];
    const authorization = `Basic ${Buffer.from(`operator:${password}`).toString('base64')}`;
    const shown = await fetch(page, { headers: { authorization } });
    expect([shown.status, await shown.text()]).toEqual([200, expect.stringContaining('<h1>Locks')]);
    expect((await fetch(page)).status).toBe(401);
    demo.interrupt(1);
    expect(await demo.ended).toBe(130);
    await demo.leavesNothing();
  });

  // A terminal sends Ctrl-C to everything in the foreground: to the demo and to what it started.
  it.each([
    ['the demo', 1],
    ['the whole process group', -1],
  ])(
    'leaves neither process nor folder after Ctrl-C in the middle, sent to %s',
    async (_, receiver) => {
      demo = new Demo('--seed', '7');
      await demo.says('buyers of 1 to 3 pieces');
      await sleep(500);
      demo.interrupt(receiver);

      expect({ exitCode: await demo.ended, output: demo.output }).toMatchObject({ exitCode: 130 });
      await demo.leavesNothing();
    },
  );

  it('says what is wrong with an argument, and starts nothing', async () => {
    demo = new Demo('--seed', 'soon');

    expect(await demo.ended).toBe(1);
    expect(demo.output).toContain("--seed is 'soon': give a whole number");
    await demo.leavesNothing();
  });
});

describe('the verdict on a sale', () => {
  const exact: Books = { left: 0, purchases: 2, pieces: 3 };
  const sold: Receipt[] = [
    { outcome: 'sold', pieces: 1, waitMs: 1 },
    { outcome: 'sold', pieces: 2, waitMs: 2 },
  ];
  const refused: Receipt = { outcome: 'refused', pieces: 1, waitMs: 3 };

  it('is exact when answers, stock and purchases agree and nothing is left', () => {
    const sale = saleOf([...sold, refused], exact);
    expect(sale).toMatchObject({ faults: [], oversold: 0, lostUpdates: 0 });
    expect([sale.waitPercentile(0.5), sale.waitPercentile(1)]).toEqual([2, 3]);
  });

  it.each<[string, Receipt[], Books]>([
    ['3 pieces were sold, but the stock went from 3 to 1', sold, { ...exact, left: 1 }],
    ['the stock ended below zero, at -1', sold, { ...exact, left: -1 }],
    ['1 pieces are left although more were asked for', sold, { ...exact, left: 1 }],
    ['the database has 1 purchases of 1 pieces', sold, { ...exact, purchases: 1, pieces: 1 }],
    [
      '1 of 3 requests failed, the first with: status 500',
      [...sold, { outcome: 'failed', pieces: 1, waitMs: 1, failure: 'status 500' }],
      exact,
    ],
  ])('says: %s', (sentence, receipts, books) => {
    expect(saleOf(receipts, books).faults).toContainEqual(expect.stringContaining(sentence));
  });

  it('counts pieces that never existed, and pieces that the stock does not account for', () => {
    const sale = saleOf([...sold, ...sold], { left: 1, purchases: 4, pieces: 6 });
    expect(sale).toMatchObject({ soldPieces: 6, oversold: 3, lostUpdates: 4 });
  });

  function saleOf(receipts: Receipt[], books: Books): Sale {
    const scenario = { name: 'sale', story: '', pieces: 3, run: () => Promise.resolve() };
    return new Sale(scenario, true, receipts, books, 1, 0);
  }
});

describe('the verdict on the trap', () => {
  const [plain, , reject, restart] = VARIANTS as [Variant, Variant, Variant, Variant];
  const refused = ['LOCK_IN_TRANSACTION', 'LOCK_IN_TRANSACTION'];

  it.each<[string, Trial]>([
    ['all were refused that had to be', trialOf(reject, 0, refused, 10)],
    ['all have sold that had to', trialOf(restart, 2, [], 8)],
    ['it is only reported', trialOf(plain, 1, ['no connection'], 10)],
  ])('is good when %s', (_, trial) => {
    expect(trial.faults).toEqual([]);
  });

  it.each<[string, Trial]>([
    ['1 of 2 sold, failed: 1 40P01', trialOf(restart, 1, ['40P01'], 9)],
    ['the stock is 9, it must be 8', trialOf(restart, 2, [], 9)],
    ['1 of 2 refused, failed: 1 LOCK_IN_TRANSACTION', trialOf(reject, 1, refused.slice(1), 9)],
    ['the stock is 9, it must be 10', trialOf(reject, 0, refused, 9)],
  ])('says: %s', (sentence, trial) => {
    expect(trial.faults).toContainEqual(expect.stringContaining(sentence));
  });

  function trialOf(
    variant: Variant,
    succeeded: number,
    errorCodes: readonly string[],
    left: number,
  ): Trial {
    const books = { left, purchases: succeeded, pieces: succeeded };
    return new Trial(variant, 10, succeeded, errorCodes, 0, 0, books, 1);
  }
});

/** The built demo in a process group and with a folder for temporary files of its own. */
class Demo {
  output = '';
  readonly ended: Promise<number | null>;
  readonly #child: ChildProcess;
  readonly #temporary = mkdtempSync(join(tmpdir(), 'demo-test-'));

  constructor(...args: string[]) {
    chmodSync(this.#temporary, 0o1777); // a database server that runs as another user comes here
    this.#child = spawn(process.execPath, [MAIN_FILE, ...args], {
      detached: true,
      env: { ...process.env, TMPDIR: this.#temporary },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    endWithTests(this.#child);
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    }
    this.ended = once(this.#child, 'close').then(() => this.#child.exitCode);
  }

  async says(text: string): Promise<void> {
    while (!this.output.includes(text)) {
      if (this.#child.exitCode !== null) throw new Error(`It ended, saying:\n${this.output}`);
      await sleep(20);
    }
  }

  /** The cells of a row of the table. */
  row(label: string): string[] {
    const line = this.output.split('\n').find((text) => text.trim().startsWith(label));
    return line?.replace(label, '').trim().split(/\s+/) ?? [];
  }

  /** @param receiver 1 = the process, -1 = its group */
  interrupt(receiver: number): void {
    process.kill(receiver * this.#pid, 'SIGINT');
  }

  async leavesNothing(): Promise<void> {
    const deadline = performance.now() + 5_000;
    // The helper that watches over servers ends a moment after them.
    while (this.#processes().length > 0 && performance.now() < deadline) await sleep(20);
    expect(this.#processes()).toEqual([]);
    expect(readdirSync(this.#temporary)).toEqual([]);
  }

  dispose(): void {
    for (const pid of this.#processes()) process.kill(pid, 'SIGKILL');
    rmSync(this.#temporary, { recursive: true, force: true });
  }

  /** Those that it told of, and on Linux all that inherited its environment. */
  #processes(): number[] {
    const told = [...this.output.matchAll(/pid (\d+)/g)].map(([, pid]) => Number(pid));
    return [...new Set([this.#pid, ...told, ...this.#inheritors()])].filter(isAlive);
  }

  #inheritors(): number[] {
    if (process.platform !== 'linux') return [];
    const pids = readdirSync('/proc').map(Number).filter(Number.isInteger);
    return pids.filter((pid) => environmentOf(pid).includes(`TMPDIR=${this.#temporary}\0`));
  }

  get #pid(): number {
    if (this.#child.pid === undefined) throw new Error(`${MAIN_FILE} could not be started`);
    return this.#child.pid;
  }
}

function environmentOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8');
  } catch {
    return ''; // it has just ended, or is somebody else's
  }
}
