/** The simulator in a browser: its histories are those of Node, and what a reader does by hand is part of them. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import axe from 'axe-core';
import { build, stop } from 'esbuild';
import type { Page } from 'playwright-core';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { readDocument, ROOT } from '../../../test/api/markdown.js';
import { describeWithChromium } from '../../../test/support/describe-if.js';
import { eventually } from '../../../test/support/eventually.js';
import { useChromium, usePages } from '../../../test/support/own-chromium.js';
import { runCommand, UNGUARDED } from '../../../test/support/run-command.js';
import { bundlePage, WORLD } from '../bundle.mjs';
import { hashOf, linkedBy } from '../src/page/view-link.js';

const folder = mkdtempSync(join(tmpdir(), 'simulator-page-test-'));
/** Where the page is on its host. */
const BASE = '/docs/simulator/';
const HTML = `<!doctype html><html lang="en"><meta name="viewport" content="width=device-width">
<title>Simulator</title><style>:root{color-scheme:light dark;background:light-dark(#fff,#1b1b1f)}</style>
<link rel="icon" href="data:,"><body><main><h1>Simulator</h1><lock-simulator></lock-simulator></main>
<script type="module" src="${BASE}page.js"></script></body></html>`;

beforeAll(async () => {
  await bundlePage(folder);
}, 60_000);

afterAll(async () => {
  await stop();
  rmSync(folder, { recursive: true, force: true });
});

it('is as large as its page says', () => {
  const files = readdirSync(folder).map((name) => readFileSync(join(folder, name)));
  const bytes = files.reduce((sum, file) => sum + gzipSync(file).length, 0);
  const [, told] = /about (\d+) KB/.exec(readDocument('docs/simulator.md').text) ?? [];
  expect(Math.abs(bytes / 1_000 - Number(told))).toBeLessThan(15);
});

describe('the link', () => {
  it.each([
    '#seed=7',
    '#seed=7&at=1234.567',
    '#seed=24&scene=faults&do=kill.p1@2600.001,failover@3000&at=4000',
  ])('%s leads to what it was made from', (hash) => {
    expect(hashOf(linkedBy(hash))).toBe(hash);
  });

  it.each(['', '#what-is-real', '#seed=-1&do=explode@5,kill.p1@&at=x&scene=none'])(
    '%s, of which nothing can be read, leads to the first history',
    (hash) => expect(hashOf(linkedBy(hash))).toBe('#seed=1'),
  );
});

describeWithChromium('the simulator in Chromium', () => {
  const requests: string[] = [];
  const complaints: string[] = [];

  const pages = usePages(({ url: path = '' }, response) => {
    const name = path.slice(BASE.length);
    response.setHeader('content-type', name === '' ? 'text/html' : 'text/javascript');
    response.end(name === '' ? HTML : readFileSync(join(folder, name)));
  });
  const browser = useChromium();

  // Together, they have several kinds of faults, and calls of all kinds. A nested call joins the hold around it.
  it.each([24, 31, 43])('plays the history of Node for seed %i, byte by byte', async (seed) => {
    const args = ['tools/simulate/dist/main.js', '--seed', String(seed), '--print'];
    const { stdout } = await runCommand(process.execPath, args, ROOT, UNGUARDED);
    const page = await open('');
    const lines = await page.evaluate<string[]>(`new Promise((resolve, reject) => {
      const world = new Worker('${BASE}world.js');
      world.onerror = ({ message }) => reject(new Error(message));
      world.onmessage = ({ data }) => data.kind === 'history' && resolve(data.lines);
      const script = { seed: ${seed}, scene: 'faults', actions: [] };
      world.postMessage({ kind: 'open', script, atMs: Infinity });
      world.postMessage({ kind: 'history' });
    })`);
    expect(lines.length).toBeGreaterThan(50);
    expect(lines.join('\n')).toBe(stdout.trimEnd());
    await page.close();
  });

  it('keeps the async context of a call across everything that it waits for', async () => {
    const { outputFiles = [] } = await build({
      ...WORLD,
      write: false,
      stdin: { contents: CONTEXTS, resolveDir: ROOT },
    });
    const page = await open('');
    await page.addScriptTag({ content: outputFiles[0]?.text ?? '' });
    expect(await page.evaluate<object>('seen')).toEqual({
      awaited: 'inner',
      together: ['inner', 'other'],
      caught: 'inner',
      finally: 'inner',
      tick: 'inner',
      resource: 'inner',
      left: 'none',
      snapshot: 'none',
      after: 'none',
    });
    await page.close();
  });

  it('plays, pauses and steps', async () => {
    const page = await open('#seed=1');
    const before = await timeOf(page);
    await press(page, 'Play');
    await eventually(async () => expect(await timeOf(page)).toBeGreaterThan(before + 200));
    await press(page, 'Pause');
    const paused = await timeOf(page);
    await press(page, 'Step');
    await eventually(async () => expect(await timeOf(page)).toBeGreaterThan(paused));
    const stepped = await timeOf(page);
    await page.waitForTimeout(300);
    expect(await timeOf(page)).toBe(stepped);
    await page.close();
  });

  it('gives the key of a killed holder to the next, once its lease is over', async () => {
    const page = await open('#seed=1');
    const { holder, next } = await untilSomebodyWaits(page);
    const endsAt = (await timeOf(page)) + (await leaseLeft(page));
    await press(page, `Kill ${holder}`);
    await page.locator('.process[data-state=dead]').waitFor();
    await playUntil(page, `${next} holds`);
    const heldAt = await timeInLog(page, `${next} holds`);
    // What is left of the lease is shown in tenths of a second.
    expect(heldAt).toBeGreaterThan(endsAt - 60);
    expect(heldAt).toBeLessThan(endsAt + 2_000);
    await page.close();
  });

  it('shows that a holder who stood still too long has lost its lock, and the link shows it again', async () => {
    const page = await open('#seed=1');
    const { holder, next } = await untilSomebodyWaits(page);
    await press(page, `Pause ${holder}`);
    await playUntil(page, `${next} holds`);
    const card = `[aria-label="Process ${holder}"]`;
    await eventually(async () => expect(await textOf(page, card)).toContain('over for'));
    await press(page, `Continue ${holder}`);
    await playUntil(page, `${holder} is told that its lock is lost, and stops`);
    const hash = await eventually(async () => {
      const shown = await page.evaluate<string>('location.hash');
      expect(shown).toMatch(/do=pause.*resume.*at=/);
      return shown;
    });
    const other = await open(hash);
    const shown = await shownBy(page);
    await eventually(async () => expect(await shownBy(other)).toEqual(shown));
    await page.close();
    await other.close();
  });

  it('tells a holder that its lock is lost when Redis has lost its data', async () => {
    const page = await open('#seed=1&at=0');
    const { holder, next } = await untilSomebodyWaits(page);
    await press(page, 'Lose data');
    await playUntil(page, `${holder} is told that its lock is lost, and stops`);
    const lostAt = await timeInLog(page, `${holder} is told`);
    await playUntil(page, `${next} holds`);
    expect(lostAt).toBeLessThan((await timeInLog(page, `${next} holds`)) + 3_000);
    await page.close();
  });

  it('cuts off and reconnects, kills and starts, restarts and fails over', async () => {
    const page = await open('#seed=3');
    const done = [
      ['Cut off p1', 'p1 is cut off'],
      ['Reconnect p1', 'p1 is connected again'],
      ['Kill p2', 'p2 is dead'],
      ['Start again p2', 'p2 is started again'],
      ['Restart', 'restart with its data'],
    ] as const;
    for (const [name, told] of done) {
      await press(page, name);
      await page.locator('.log', { hasText: told }).waitFor();
    }
    await playUntil(page, 'p2 asks for');
    await press(page, 'Fail over');
    await playUntil(page, 'Redis: lost data');
    await press(page, 'Lose data');
    await playUntil(page, 'restart without data');
    await page.close();
  });

  it('goes on when the address leads to a heading, and to another history when it says so', async () => {
    const page = await open('#a-heading');
    expect(await page.evaluate<string>('location.hash')).toBe('#a-heading');
    await press(page, 'Kill p1');
    await page.locator('.process[data-state=dead]').waitFor();
    const go = (hash: string): Promise<unknown> => page.evaluate(`location.hash = '${hash}'`);
    await go('#a-heading');
    await page.waitForTimeout(300);
    expect(await page.locator('.process[data-state=dead]').count()).toBe(1);
    await go('#seed=5&at=1000');
    await eventually(async () => expect(await timeOf(page)).toBe(1_000));
    expect(await page.locator('.process[data-state=dead]').count()).toBe(0);
    await page.close();
  });

  it('says so when a history has ended', async () => {
    const page = await open('#seed=24&scene=faults&at=1000000');
    await page.getByText('The history ends here').waitFor();
    expect(await page.getByRole('button', { name: 'Play' }).isDisabled()).toBe(true);
    await page.close();
  });

  it.each([
    [390, 'light', '#seed=1&at=2600'],
    [390, 'dark', '#seed=25&scene=faults&at=5000'],
    [1440, 'light', '#seed=25&scene=faults&at=5000'],
    [1440, 'dark', '#seed=1&at=2600'],
  ] as const)('shows all that it has, %i px wide, %s: %s', async (width, colorScheme, hash) => {
    const page = await open(hash, { width, colorScheme });
    expect(await page.evaluate<string[]>(CUT)).toEqual([]);
    await page.addScriptTag({ content: axe.source });
    const { violations } = await page.evaluate<axe.AxeResults>('axe.run(document)');
    expect(violations.map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([]);
    await page.close();
  });

  it('has sent no request elsewhere, and logged no error', () => {
    expect(requests.length).toBeGreaterThan(20);
    expect(
      requests.filter((address) => !/^data:/.test(address) && !address.startsWith(pages.url)),
    ).toEqual([]);
    expect(complaints).toEqual([]);
  });

  async function open(
    hash: string,
    {
      width = 1440,
      colorScheme = 'light',
    }: { width?: number; colorScheme?: 'light' | 'dark' } = {},
  ): Promise<Page> {
    const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
    page.on('request', (request) => requests.push(request.url()));
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(error.message));
    await page.goto(`${pages.url}${BASE}${hash}`);
    await page.locator('.process').first().waitFor();
    return page;
  }
});

/** Looks which context there is after each kind of waiting. */
const CONTEXTS = `
import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';
import { runTicks } from './tools/simulate-page/src/node/process.ts';
const storage = new AsyncLocalStorage();
const here = () => storage.getStore() ?? 'none';
const turn = () => new Promise((resolve) => setTimeout(resolve));
const outside = AsyncLocalStorage.snapshot();
async function awaited() {
  await turn();
  for await (const _ of [turn(), turn()]);
  return here();
}
const failed = async () => { await turn(); throw new Error(); };
globalThis.seen = storage.run('inner', async () => {
  const resource = new AsyncResource('Test');
  return {
    awaited: await awaited(),
    together: await Promise.all([awaited(), storage.run('other', awaited)]),
    caught: await failed().catch(here),
    finally: await new Promise((resolve) => turn().finally(() => resolve(here()))),
    tick: await new Promise((resolve) => {
      process.nextTick(() => resolve(here()));
      storage.run('other', runTicks);
    }),
    resource: await storage.run('other', async () => resource.runInAsyncScope(here)),
    left: await storage.exit(awaited),
    snapshot: outside(here),
  };
}).then((seen) => ({ ...seen, after: here() }));`;

async function press(page: Page, name: string): Promise<void> {
  await page.getByRole('button', { name, exact: true }).click();
}

async function playUntil(page: Page, told: string): Promise<void> {
  await page.getByLabel('Speed').selectOption('5');
  await press(page, 'Play');
  await page.locator('.log', { hasText: told }).waitFor({ timeout: 60_000 });
  await press(page, 'Pause');
}

/** Steps until somebody holds the key, and somebody else waits for it in Redis. */
async function untilSomebodyWaits(page: Page): Promise<{ holder: string; next: string }> {
  for (;;) {
    const [holder] = await page.locator('.owner .chip').allTextContents();
    const [next] = await page.locator('.queue .chip').allTextContents();
    if (holder !== undefined && next !== undefined && holder !== next) return { holder, next };
    const before = await timeOf(page);
    await press(page, 'Step');
    await eventually(async () => expect(await timeOf(page)).toBeGreaterThan(before));
  }
}

async function textOf(page: Page, selector: string): Promise<string> {
  return (await page.locator(selector).textContent()) ?? '';
}

async function timeOf(page: Page): Promise<number> {
  return Number(await page.locator('.time').getAttribute('data-ms'));
}

async function leaseLeft(page: Page): Promise<number> {
  const [, left = ''] = /lease: ([\d.]+) s/.exec(await textOf(page, '.owner')) ?? [];
  return 1_000 * parseFloat(left);
}

/** When something was told last. */
async function timeInLog(page: Page, told: string): Promise<number> {
  return 1_000 * parseFloat(await textOf(page, `.log li:has-text("${told}") >> nth=0 >> time`));
}

/** All that a reader sees of a history. A link names whole milliseconds, which moves the end of a bar a little. */
async function shownBy(page: Page): Promise<readonly string[]> {
  const parts = ['.time', '.stage', '.picture', '.log'];
  const shown = await Promise.all(parts.map((part) => page.locator(part).innerHTML()));
  return shown.map((html) => html.replaceAll(/width: ?[\d.]+%/g, 'width'));
}

/** What is beyond an edge, or does not fit into its place. */
const CUT = `(() => {
  const root = document.querySelector('lock-simulator').shadowRoot;
  const isCut = (element) =>
    element.getBoundingClientRect().right > innerWidth + 0.5 ||
    element.getBoundingClientRect().left < -0.5 ||
    (element instanceof HTMLElement && element.clientWidth > 0 && element.scrollWidth > element.clientWidth + 1);
  const cut = [...root.querySelectorAll('.simulator *')].filter(isCut);
  const wide = document.documentElement.scrollWidth > innerWidth ? [document.documentElement] : [];
  return [...wide, ...cut].map(({ outerHTML }) => outerHTML.slice(0, 120));
})()`;
