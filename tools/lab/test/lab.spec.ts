import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import axe from 'axe-core';
import type { HistoryLine } from 'check-history';
import type { Page } from 'playwright-core';
import { spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ROOT } from '../../../test/api/markdown.js';
import { describeWithChromium } from '../../../test/support/describe-if.js';
import { endWithTests } from '../../../test/support/end-with-tests.js';
import { useChromium } from '../../../test/support/own-chromium.js';
import { type Accident, ACCIDENTS, whyNot } from '../src/accidents.js';
import { deviationOf, isExpected } from '../src/expected.js';
import { readOptions } from '../src/options.js';
import { joined, writePages } from '../src/report/write-report.js';
import { type Finding, findingsOf } from '../src/run/findings.js';
import type { Trial } from '../src/run/trial.js';
import { STAGES } from '../src/stages/index.js';
import { OUR_QUORUM, OURS } from '../src/stages/stage.js';

const MAIN_FILE = fileURLToPath(new URL('../dist/main.js', import.meta.url));
const RUN_LIMIT_MS = 240_000;

/** A short run: four stages, the sale and three accidents. */
const SHORT = ['--stage', '6,11,13,17', '--accident', 'sale,killed,long-work,pause'];
const TRIALS = 16;

/** Variants and repairs, in the accidents that tell them apart. */
const VARIANTS = [
  ...['--stage', '2,2b,5,10b,12,13b,14,15,16'],
  ...['--accident', 'between,longer-work,slow-commit,pause'],
];

/** Locks on several servers, in the accident that tells theirs from ours. */
const SEVERAL = ['--stage', '18,18b', '--accident', 'forgets,pause'];

const folder = mkdtempSync(join(tmpdir(), 'lock-lab-test-'));
let short: { code: number | null; output: string };

beforeAll(async () => {
  short = await lab(...SHORT, '--seed', '7', '--at-once', '3', '--out', folder);
}, RUN_LIMIT_MS);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('npm run lab', () => {
  it('provokes each accident, finds what its table expects, and draws it', () => {
    expect(short).toMatchObject({ code: 0 });
    expect(short.output).toContain(`All ${TRIALS} results are as the table of expected results`);
    expect(readdirSync(folder)).toEqual(
      expect.arrayContaining(['lab-report.html', 'matrix.svg', '13-pause.svg', '17-pause.svg']),
    );
  });

  it('shows the defects in the matrix: locked for ever, stock wrong, and ours held', () => {
    expect(rowOf('11 SET NX EX, GET then DEL')).toEqual(['EVER', 'held', 'STOCK', 'STOCK']);
    expect(rowOf('6 SETNX, DEL')).toEqual(['held', 'EVER', 'held', 'held']);
    expect(rowOf('13 Lua release')).toEqual(['held', 'held', 'STOCK', 'STOCK']);
    expect(rowOf('17 nestjs-locked')).toEqual(['held', 'held', 'held', 'held']);
  });

  it('writes a line for each event, and a forged one is found', () => {
    const file = join(folder, 'histories/17-pause.jsonl');
    const lines = readFileSync(file, 'utf8').trim().split('\n');
    const written = lines.map((line) => JSON.parse(line) as HistoryLine);
    const found = (history: readonly HistoryLine[]): readonly Finding[] => {
      const told = { lines: history, heard: new Map<string, 'never'>() };
      const stock = { start: 100, left: 80, sold: 20 };
      return findingsOf(told, { events: [], stock, seen: [] }, true);
    };
    expect(found(written)).toEqual([]);

    const [a, b] = written.filter((line) => line.type === 'entered');
    const where = written.indexOf(b!);
    const forged = (line: HistoryLine, instead: object): HistoryLine[] =>
      written.map((each) => (each === line ? { ...each, ...instead } : each));
    const acts = { ...a!, at: b!.at, type: 'effect' } as HistoryLine;
    const early = { ...a!, at: b!.at, type: 'assured', until: b!.at + 1 } as HistoryLine;
    expect(found(written.toSpliced(where + 1, 0, early, acts))).toEqual(['two holders']);
    const assured = written.flatMap((line) =>
      line.type === 'assured' && line.process === a!.process ? [line.until] : [],
    );
    // A timer may be late by 100 ms. On a busy machine, the other one may have entered within them.
    const late = { ...acts, at: Math.max(b!.at, ...assured.map((until) => until + 101)) };
    expect(found(written.toSpliced(where, 0, late))).toContain('nobody was told');
    expect(found(forged(b!, { fences: a!.fences }))).toEqual(['wrong fence']);
    const neverEnds = written.filter(({ type }) => type !== 'ended');
    expect(found(neverEnds)).toEqual(['locked for ever']);
  });

  it(
    'plays the articles’ own faults and their repairs',
    async () => {
      const out = join(folder, 'variants');
      const variants = await lab(...VARIANTS, '--at-once', '3', '--out', out);
      expect(variants).toMatchObject({ code: 0 });
      const row = (name: string): string[] => rowOf(name, variants);
      expect(row('2 mutex released before COMMIT')).toEqual(['-', '-', 'STOCK', 'STOCK']);
      expect(row('2b mutex around the transaction')).toEqual(['-', '-', 'held', 'STOCK']);
      expect(row('5 GET then SET')).toEqual(['held', '-', 'STOCK', 'STOCK']);
      expect(row('10b GETSET, same value as read')).toEqual(['held', '-', 'held', 'STOCK']);
      expect(row('12 WATCH, MULTI, EXEC')).toEqual(['held', '-', 'held', 'STOCK']);
      expect(row('13b Lua release before COMMIT')).toEqual(['-', '-', 'STOCK', 'STOCK']);
      for (const name of ['14 Lua, renewal, wake-up list', '15 watchdog, hash, pub/sub']) {
        expect(row(name)).toEqual(['-', 'held', 'held', 'STOCK+']); // told late
      }
      expect(row('16 "lock plus"')).toEqual(['-', 'STOCK', 'held', 'FAILED']);
      const trials = JSON.parse(
        readFileSync(join(out, 'lab-trials.json'), 'utf8'),
      ) as readonly Trial[];
      const findings = (stage: string): readonly string[] =>
        trials.find((trial) => trial.stage === stage && trial.accident === 'pause')!.findings;
      // Released before the COMMIT, a lock has never two holders, and the stock is wrong.
      for (const stage of ['2', '13b']) expect(findings(stage)).toEqual(['stock wrong']);
      for (const stage of ['14', '15']) {
        expect(findings(stage)).toEqual(['stock wrong', 'two holders', 'told late']);
      }
    },
    RUN_LIMIT_MS,
  );

  it(
    'plays locks on several servers, and shows them in a matrix of their own',
    async () => {
      const out = join(folder, 'several');
      const several = await lab(...SEVERAL, '--at-once', '1', '--out', out);
      expect(several).toMatchObject({ code: 0 });
      expect(rowOf('18 Redlock, 3 servers', several)).toEqual(['STOCK', 'STOCK']);
      expect(rowOf('18b nestjs-locked, 3 servers', several)).toEqual(['held', 'held']);
      const pictures = ['several-servers.svg', '18-forgets.svg', '18b-forgets.svg'];
      expect(readdirSync(out)).toEqual(expect.arrayContaining(pictures));
      expect(readdirSync(out)).not.toContain('matrix.svg');
      expect(several.output).toContain('two held it for');
    },
    RUN_LIMIT_MS,
  );

  it('says what is wrong with an option, and starts nothing', async () => {
    const { code, output } = await lab('--stage', '19');
    expect(code).toBe(1);
    expect(output).toContain("--stage is '19': give one of 1, 2, 2b, 3");
  });

  it('lists every stage and accident', async () => {
    const { code, output } = await lab('--list');
    expect(code).toBe(0);
    for (const { name } of [...STAGES, ...ACCIDENTS]) expect(output).toContain(name);
  });

  it('saves what was played, and keeps what was saved of the other pairs', () => {
    const trial = (stage: string, accident: string, summary: string): Trial =>
      ({ stage, accident, summary }) as unknown as Trial;
    const facts = { seed: 1, seconds: 10, machine: '', date: '', deviations: [] };
    const before = [trial('13', 'pause', 'old'), trial('18', 'pause', 'old'), trial('0', 'x', '')];
    const run = { trials: [trial('18', 'pause', 'new')], facts: { ...facts, seconds: 5 } };

    const both = joined(run, { trials: before, facts });

    expect(both.trials.map(({ stage, summary }) => [stage, summary])).toEqual([
      ['13', 'old'],
      ['18', 'new'],
    ]);
    expect(both.facts.seconds).toBe(15);
    expect(joined(run, { trials: [], facts })).toEqual(run);
  });

  it('takes several stages and accidents, in one option or in several', () => {
    expect(
      readOptions(['--stage', '8,3', '--accident', 'pause', '--accident', 'hang']),
    ).toMatchObject({
      stages: ['3', '8'],
      accidents: ['pause', 'hang'],
    });
  });

  function rowOf(name: string, { output } = short): string[] {
    const line = output.split('\n').find((text) => text.trim().startsWith(`${name} `));
    return (
      line
        ?.slice(line.indexOf(name) + name.length)
        .trim()
        .split(/\s+/) ?? []
    );
  }
});

describe('the table of expected results', () => {
  it('has the steps of the articles in their order, each before its variants, then those of several servers, and ours last', () => {
    const ids = STAGES.map(({ id }) => id);
    const steps = ids.filter((id) => /^\d+$/.test(id));
    expect(steps).toEqual(Array.from({ length: 18 }, (_, n) => String(n + 1)));
    const variants = ids.filter((id) => !steps.includes(id));
    expect(variants).toEqual(['2b', '10b', '13b', '16b', OUR_QUORUM]);
    for (const id of variants) expect(ids[ids.indexOf(id) - 1]).toBe(id.slice(0, -1));
    expect(ids.slice(-3)).toEqual([OURS, '18', OUR_QUORUM]);
  });

  it('knows exactly those pairs of stage and accident that can happen', () => {
    const pairs = STAGES.flatMap((stage) =>
      ACCIDENTS.map((accident) => [
        `${stage.id} ${accident.id}`,
        isExpected(accident.id, stage.id),
        whyNot(accident, stage) === undefined,
      ]),
    );
    expect(pairs.filter(([, expected, possible]) => possible && !expected)).toEqual([]);
  });

  it('plays every accident against ours that it plays against another lock on Redis', () => {
    const missing = (ids: (id: string) => boolean, ours: string): string[] => {
      const isPlayed = (accident: Accident, isOne: (id: string) => boolean): boolean =>
        STAGES.some((stage) => isOne(stage.id) && whyNot(accident, stage) === undefined);
      return ACCIDENTS.filter(
        (accident) => isPlayed(accident, ids) && !isPlayed(accident, (id) => id === ours),
      ).map(({ id }) => id);
    };
    expect(missing((id) => !id.startsWith('18'), OURS)).toEqual([]);
    expect(missing((id) => id.startsWith('18'), OUR_QUORUM)).toEqual([]);
  });

  it.each<[string, Trial['findings'], string | undefined]>([
    ['as expected', ['stock wrong', 'two holders', 'nobody was told'], undefined],
    [
      'better than expected',
      [],
      'expected, and not found: stock wrong, two holders, nobody was told',
    ],
    [
      'worse than expected',
      ['stock wrong', 'two holders', 'call failed', 'nobody was told'],
      'found, and not expected: call failed',
    ],
  ])('a result that is %s', (_, findings, deviation) => {
    const trial = { stage: '13', accident: 'long-work', findings } as unknown as Trial;
    expect(deviationOf(trial)).toBe(deviation);
  });
});

describe('the pictures of docs/lab', () => {
  const docs = join(ROOT, 'docs');
  const drawn = join(folder, 'docs');

  it('are those of the run that was saved, as it is drawn today', () => {
    writePages(drawn);
    const pictures = readdirSync(join(drawn, 'lab'));
    expect(pictures.sort()).toEqual(readdirSync(join(docs, 'lab')).filter(isPicture).sort());
    for (const name of pictures) {
      const [now, committed] = [drawn, docs].map((root) =>
        readFileSync(join(root, 'lab', name), 'utf8'),
      );
      expect([name, now === committed]).toEqual([name, true]);
    }
    expect(readdirSync(join(drawn, 'public/lab'))).toEqual(['report.html']);
  });

  it.each(['8-p1-p2-p3', '13-pause', '17-pause', '18-forgets', '18b-forgets', 'three-locks'])(
    '%s explains its colours and its numbers, and has nothing beyond its edge',
    (name) => {
      for (const file of [name, `${name}-narrow`]) {
        const svg = readFileSync(join(docs, `lab/${file}.svg`), 'utf8');
        const numbers = new Set(
          [...svg.matchAll(/text-anchor="middle">(\d)<\/text>/g)].map(([, n]) => n),
        );
        for (const number of numbers) {
          // Once in the picture, and once below it, with its time and text.
          expect(svg.split(`text-anchor="middle">${number}</text>`)).toHaveLength(3);
        }
        for (const word of ['waits', 'holds the lock', 'committed'])
          expect(svg).toContain(`>${word}</text>`);
        const [, width] = /viewBox="0 0 (\d+)/.exec(svg) ?? [];
        const legend = [
          ...svg.matchAll(/translate\(([\d.]+) [\d.]+\)">.*?<text x="40" y="12">(.*?)<\/text>/g),
        ];
        expect(legend.length).toBeGreaterThan(3);
        for (const [, left, text = ''] of legend) {
          expect(Number(left) + 40 + 7 * text.length).toBeLessThanOrEqual(Number(width));
        }
      }
    },
  );

  function isPicture(name: string): boolean {
    return name.endsWith('.svg');
  }
});

interface Drawn {
  readonly id: string;
  readonly width: number;
  readonly bars: number;
  readonly rows: number;
}

describeWithChromium('lab-report.html in a browser', () => {
  const browser = useChromium();
  const requests: string[] = [];
  const complaints: string[] = [];

  it('asks nothing of the network and complains of nothing', async () => {
    const page = await open();
    await page.waitForLoadState('networkidle');
    expect(complaints).toEqual([]);
    expect(requests.filter((url) => !url.startsWith('file:'))).toEqual([]);
  });

  it('draws a timeline, a list and a table for every trial', async () => {
    const page = await open();
    const drawn = await page.evaluate<Drawn[]>(`
      for (const each of document.querySelectorAll('details')) each.open = true;
      [...document.querySelectorAll('details.trial')].map((trial) => {
        const svg = trial.querySelector('svg.timeline');
        const bars = [...svg.querySelectorAll('rect.hold')];
        return {
          id: trial.id,
          width: svg.getBoundingClientRect().width,
          bars: bars.filter((bar) => bar.getBoundingClientRect().width > 0).length,
          rows: trial.querySelectorAll('table tbody tr').length,
        };
      })`);
    expect(drawn).toHaveLength(TRIALS);
    expect(drawn.filter(({ width, bars, rows }) => width < 300 || bars < 1 || rows < 2)).toEqual(
      [],
    );
  });

  it('shows times under the pointer, and with the arrow keys', async () => {
    const page = await open();
    await page.evaluate(`location.hash = '#t-13-sale'`);
    const picture = page.locator('#t-13-sale svg.timeline');
    await picture.scrollIntoViewIfNeeded();
    await picture.locator('rect.hold').first().hover({ force: true });
    const tip = page.locator('.tip');
    await expect(tip.textContent()).resolves.toMatch(/: [\d.]+ m?s to [\d.]+ m?s/);
    await picture.focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    await tip.waitFor({ state: 'visible' });
    await page.keyboard.press('Escape');
    await tip.waitFor({ state: 'hidden' });
  });

  it('opens the picture of a cell that was chosen in the matrix', async () => {
    const page = await open();
    await page.locator('.matrix a[href="#t-13-pause"]').click();
    await page.locator('#t-13-pause svg.timeline').first().waitFor({ state: 'visible' });
  });

  it.each([
    ['a desk', 1440, 'light'],
    ['a desk', 1440, 'dark'],
    ['a phone', 390, 'light'],
    ['a phone', 390, 'dark'],
  ] as const)('is readable on %s %i wide, %s', async (_, width, colorScheme) => {
    const page = await open(width, colorScheme);
    await page.evaluate(
      `for (const each of document.querySelectorAll('details')) each.open = true`,
    );
    await page.addScriptTag({ content: axe.source });
    const violations = await page.evaluate<string[]>(`
        axe.run(document).then((result) =>
          result.violations.map(
            ({ id, nodes }) => id + ': ' + nodes.slice(0, 3).map(({ html }) => html.slice(0, 120)).join(' | '),
          ),
        )`);
    expect(violations).toEqual([]);
    const tooWide = await page.evaluate<number>(
      `document.documentElement.scrollWidth - innerWidth`,
    );
    expect(tooWide).toBeLessThanOrEqual(0);
  });

  async function open(width = 1280, colorScheme: 'light' | 'dark' = 'light'): Promise<Page> {
    const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
    page.on('request', (request) => requests.push(request.url()));
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(error.message));
    await page.goto(pathToFileURL(join(folder, 'lab-report.html')).href);
    return page;
  }
});

/** Runs the built lab. */
async function lab(...args: string[]): Promise<{ code: number | null; output: string }> {
  const child = spawn(process.execPath, [MAIN_FILE, ...args]);
  endWithTests(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (text: Buffer) => (output += text.toString()));
  }
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { code, output };
}
