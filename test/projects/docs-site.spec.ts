/** `npm run docs`: the site is built, every link in it leads somewhere, and it can be used at a desk and on a phone. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import axe from 'axe-core';
import type { Page } from 'playwright-core';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { extname, join, posix } from 'node:path';
import { sidebar } from '../../docs/.vitepress/pages.mjs';
import { readRelease } from '../../tools/bench/src/report/files.js';
import { LIBRARY } from '../api/entry-points.js';
import { readDocument, ROOT } from '../api/markdown.js';
import { describeWithChromium } from '../support/describe-if.js';
import { useChromium, usePages } from '../support/own-chromium.js';
import { runCommand, UNGUARDED } from '../support/run-command.js';

const BUILD_LIMIT_MS = 600_000;
const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};

const site = mkdtempSync(join(tmpdir(), 'docs-site-test-'));
let built: { code: number; output: string };

beforeAll(async () => {
  const bin = join(ROOT, 'node_modules');
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await runCommand(process.execPath, args, ROOT, UNGUARDED);
    return { code, output: stdout + stderr };
  };
  for (const program of [
    ['tools/lab/dist/main.js', '--page'],
    ['tools/simulate-page/bundle.mjs'],
    [join(bin, 'typedoc/bin/typedoc')],
  ]) {
    built = await run(...program);
    if (built.code !== 0) return;
  }
  built = await run(join(bin, 'vitepress/bin/vitepress.js'), 'build', 'docs', '--outDir', site);
}, BUILD_LIMIT_MS);

afterAll(() => rmSync(site, { recursive: true, force: true }));

describe('npm run docs', () => {
  it('runs these commands', () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    expect(scripts['docs']).toBe(
      'npm run build --silent && node tools/lab/dist/main.js --page && node tools/simulate-page/bundle.mjs && typedoc && exec vitepress build docs',
    );
  });

  it('builds: every public symbol has a comment, and every page is there', () => {
    expect(built.code === 0 ? 'built' : built.output).toBe('built');
    expect(pagesOf(site)).toEqual(
      expect.arrayContaining(['index.html', 'keys.html', 'adr/index.html', 'api/index.html']),
    );
  });

  it('creates only links that lead to a page, and to a heading of it', () => {
    const ids = new Map<string, Set<string>>();
    for (const page of pagesOf(site)) {
      const html = readFileSync(join(site, page), 'utf8');
      ids.set(page, new Set([...html.matchAll(/ id="([^"]+)"/g)].map(([, id = '']) => id)));
    }
    const broken: string[] = [];
    let count = 0;
    for (const page of pagesOf(site)) {
      const html = readFileSync(join(site, page), 'utf8');
      for (const [, href = ''] of html.matchAll(/<a [^>]*?href="([^"]*)"/g)) {
        if (/^[a-z]+:/.test(href)) continue;
        count += 1;
        const [path = '', anchor = ''] = decodeURIComponent(href).split('#');
        const file = fileOf(path === '' ? page : posix.resolve('/', posix.dirname(page), path));
        const known = ids.get(file);
        const isThere = known === undefined ? existsSync(join(site, file)) : true;
        if (!isThere || (anchor !== '' && known?.has(anchor) !== true)) {
          broken.push(`${page}: ${href}`);
        }
      }
    }
    expect(count).toBeGreaterThan(500);
    expect(broken).toEqual([]);
  });

  it('writes llms.txt, which lists each page once, with its heading', () => {
    const text = readFileSync(join(site, 'llms.txt'), 'utf8');
    const links = [...text.matchAll(/^- \[(.+?)\]\(\/(\S+?)\)(?:: .+)?$/gm)];
    const listed = links.map(([, , path = '']) => path);
    const pages = pagesOf(site).filter((page) => page !== 'lab/report.html');
    expect([...listed].sort()).toEqual(pages.map((page) => page.replace(/html$/, 'md')).sort());
    for (const [, title = '', path = ''] of links) {
      const [, heading = ''] = /^# (.+)$/m.exec(readFileSync(join(site, path), 'utf8')) ?? [];
      expect([path, title]).toEqual([path, heading.replaceAll('`', '')]);
    }
    expect(text.match(/^> .+$/gm)).toHaveLength(1);
  });

  it('writes llms-full.txt, the text of all pages that people write for users', () => {
    const text = readFileSync(join(site, 'llms-full.txt'), 'utf8');
    const headings = sidebar()
      .flatMap(({ items }) => items.map(({ link }) => `docs${link}.md`))
      .filter((path) => existsSync(join(ROOT, path)))
      .map((path) => /^# .+$/m.exec(readFileSync(join(ROOT, path), 'utf8'))?.[0]);
    expect(headings.length).toBeGreaterThan(30);
    expect(headings.filter((heading) => !text.includes(`\n${heading}\n`))).toEqual([]);
    expect(text).not.toContain('<!-- site:');
  });
});

describe('the facts on the first screen', () => {
  /** One server, and a quorum. */
  const OUR_STAGES = ['17', '18b'];
  const { text } = readDocument('docs/index.md');

  it('counts accidents and broken locks as in the run of the lab that was saved', () => {
    const { trials } = JSON.parse(
      readFileSync(join(ROOT, 'tools/lab/results/trials.json'), 'utf8'),
    ) as { trials: readonly Trial[] };
    const accidents = new Set(trials.map(({ accident }) => accident));
    const ours = trials.filter(({ stage }) => OUR_STAGES.includes(stage));
    const others = trials.filter(({ stage }) => !OUR_STAGES.includes(stage));
    const broken = others.filter(({ findings }) => findings.length > 0);
    const count = (some: readonly Trial[]): number => new Set(some.map(({ stage }) => stage)).size;
    expect(accidents.delete('sale')).toBe(true); // no accident
    expect(text).toContain(`**Tried in ${accidents.size} accidents.**`);
    expect(text).toContain(`${count(broken)} of ${count(others)} other locks broke`);
    expect(ours.filter(({ findings }) => findings.includes('stock wrong'))).toEqual([]);
  });

  it('claims no more speed than the last release has', () => {
    const { scenarios } = readRelease();
    const rows = scenarios.find(({ id }) => id === 'one-process')?.rows ?? [];
    const rateOf = (wanted: (adapter: string) => boolean): number =>
      Math.max(
        ...rows
          .filter(({ adapter = 'raw' }) => wanted(adapter))
          .map(({ values }) => values['rate']?.median ?? 0),
      );
    const ratio =
      rateOf((adapter) => adapter === 'ours') / rateOf((adapter) => !/^(?:raw|ours)/.test(adapter));
    const [, claimed] = /\*\*(\d+) times as many holds per second\*\*/.exec(text) ?? [];
    expect(Number(claimed)).toBeLessThanOrEqual(ratio);
    expect(Number(claimed)).toBeGreaterThan(1);
  });

  interface Trial {
    readonly stage: string;
    readonly accident: string;
    readonly findings: readonly string[];
  }
});

describeWithChromium('the site in a browser', () => {
  const requests: string[] = [];
  const complaints: string[] = [];

  const pages = usePages((request, response) => {
    const path = decodeURIComponent((request.url ?? '/').split('?')[0] as string);
    const file = join(site, fileOf(path));
    if (!existsSync(file)) return response.writeHead(404).end();
    response.writeHead(200, {
      'content-type': TYPES[extname(file)] ?? 'text/plain',
      'cache-control': 'max-age=3600', // the site does not change meanwhile
    });
    return response.end(readFileSync(file));
  });
  const browser = useChromium();

  // Overflow does not depend on the colours, nor the colours on the width.
  describe.each([
    ['a desk', 1280, 'light'],
    ['a phone', 390, 'dark'],
  ] as const)('on %s %i wide, %s', (_, width, colorScheme) => {
    it.each([
      ['/', 'nestjs-locked'],
      ['/quick-start.html', 'Quick start'],
      ['/operations.html', 'Operations'],
      ['/troubleshooting.html', 'Troubleshooting'],
      ['/lab.html', 'The lock lab'],
      ['/simulator.html', 'The simulator'],
      ['/benchmarks.html', 'Benchmarks'],
      ['/adr/', 'Decisions'],
      ['/api/', 'API'],
      ['/api/nestjs-locked/typeorm/', 'nestjs-locked/typeorm'],
    ])('%s is readable', async (path, title) => {
      const page = await open(path);
      await expect(page.locator('h1').first().textContent()).resolves.toContain(title);
      const tooWide = 'document.documentElement.scrollWidth - innerWidth';
      expect(await page.evaluate<number>(tooWide)).toBeLessThanOrEqual(0);
      expect(await violationsOn(page)).toEqual([]);
      await page.close();
    });

    it('finds a page by its text, and an error by its code', async () => {
      for (const [words, path] of [
        ['paused holder', '/losing-a-lock.html'],
        ['LOCK_STORE_FAILED', '/troubleshooting.html'],
      ] as const) {
        const page = await open('/');
        await page.getByRole('button', { name: 'Search' }).click();
        await page.locator('#localsearch-input').fill(words);
        await page.locator(`.results a[href*="${path}"]`).first().click({ timeout: 20_000 });
        await page.waitForURL((address) => address.pathname === path);
        await page.close();
      }
    });

    async function open(path: string): Promise<Page> {
      const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
      page.on('request', (request) => requests.push(request.url()));
      page.on('console', (message) => {
        if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
      });
      page.on('pageerror', (error) => complaints.push(error.message));
      await page.goto(`${pages.url}${path}`, { waitUntil: 'networkidle' });
      return page;
    }
  });

  it.each([
    ['a desk', 1440, 900],
    ['a laptop', 1280, 800],
  ])(
    'on %s, the home shows code, picture, facts and the version in one screen',
    async (_, width, height) => {
      const page = await browser.newPage({ viewport: { width, height } });
      await page.goto(pages.url, { waitUntil: 'networkidle' });
      const bottoms = await page.evaluate<number[]>(`
      ['.vp-doc pre', '.vp-doc picture img', '.vp-doc ul li:last-child'].map(
        (shown) => document.querySelector(shown).getBoundingClientRect().bottom,
      )`);
      expect(Math.max(...bottoms)).toBeLessThanOrEqual(height);
      const { version } = JSON.parse(readFileSync(join(LIBRARY, 'package.json'), 'utf8')) as {
        version: string;
      };
      const shown = version === '0.0.0' ? 'Not released' : version;
      expect(await page.locator('.VPNavBarMenu').textContent()).toContain(shown);
      await page.close();
    },
  );

  it('every page shows all that it has, 390 and 1440 px wide', async () => {
    const found: unknown[] = [];
    // What the server sends looks the same as after Vue has taken over.
    const context = await browser.newContext({ javaScriptEnabled: false });
    const waiting = pagesOf(site);
    expect(waiting.length).toBeGreaterThan(100);
    const look = async (): Promise<void> => {
      const page = await context.newPage();
      for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
        for (const width of [390, 1440]) {
          await page.setViewportSize({ width, height: 900 });
          // Loaded again, because a picture for another width comes later than the change of the width.
          await page.goto(`${pages.url}/${path}`, { waitUntil: 'load' });
          const faults = await page.evaluate<object>(FAULTS);
          if (Object.keys(faults).length > 0) found.push({ path, width, ...faults });
        }
      }
    };
    await Promise.all([look(), look(), look(), look()]);
    await context.close();
    expect(found).toEqual([]);
  });

  it('the site has sent no request to the network, and logged no error', () => {
    expect(requests.length).toBeGreaterThan(20);
    expect(requests.filter((address) => !address.startsWith(pages.url))).toEqual([]);
    expect(complaints).toEqual([]);
  });
});

/**
 * What a reader of a page cannot see, or not read: an object without properties if nothing is wrong.
 *
 * - `tooWide`: the page scrolls sideways.
 * - `cut`: tables that scroll sideways; on a desk, also code.
 * - `tooHigh`: a page of the reference that is longer than 21,000 px.
 * - `tooSmall`: pictures whose smallest text is below 9 px.
 */
const FAULTS = `(() => {
  const root = document.documentElement;
  const isDesk = innerWidth > 640;
  const cut = [...document.querySelectorAll('.vp-doc table' + (isDesk ? ', .vp-doc pre' : ''))]
    .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 1)
    .map(({ textContent }) => textContent.slice(0, 60));
  const tooSmall = [...document.querySelectorAll('.vp-doc img')].flatMap((image) => {
    const request = new XMLHttpRequest();
    request.open('GET', image.currentSrc, false);
    request.send();
    const [, width] = /viewBox="0 0 ([\\d.]+)/.exec(request.responseText) ?? [];
    const sizes = [...request.responseText.matchAll(/font-size:([\\d.]+)px/g)].map(([, size]) => size);
    const size = Math.min(...sizes) * (image.getBoundingClientRect().width / width);
    return size < 9 ? [image.alt + ': ' + size] : [];
  });
  const faults = {
    tooWide: root.scrollWidth > innerWidth,
    cut: cut.length > 0 && cut,
    tooHigh: location.pathname.startsWith('/api/') && root.scrollHeight > 24_000,
    tooSmall: tooSmall.length > 0 && tooSmall,
  };
  return Object.fromEntries(Object.entries(faults).filter(([, fault]) => fault !== false));
})()`;

async function violationsOn(page: Page): Promise<string[]> {
  await page.addScriptTag({ content: axe.source });
  // The theme shows the keys of its search button beside the name of that button.
  const rules = { 'label-content-name-mismatch': { enabled: false } };
  return page.evaluate<string[]>(`
    axe.run(document, { resultTypes: ['violations'], rules: ${JSON.stringify(rules)} }).then((result) =>
      result.violations.map(
        ({ id, nodes }) => id + ': ' + nodes.slice(0, 3).map(({ html }) => html.slice(0, 120)).join(' | '),
      ),
    )`);
}

/** The pages, relative to the site. */
function pagesOf(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((path) => path.replaceAll('\\', '/'))
    .filter((path) => path.endsWith('.html') && path !== '404.html');
}

/** The file behind a path of the site. */
function fileOf(path: string): string {
  const relative = path.replace(/^\//, '');
  return relative === '' || path.endsWith('/') ? `${relative}index.html` : relative;
}
