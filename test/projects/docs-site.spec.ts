/** `npm run docs`: the site is built, every link in it leads somewhere, and it can be used at a desk and on a phone. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import axe from 'axe-core';
import { findChromium } from 'dev-servers';
import { type Browser, chromium, type Page } from 'playwright-core';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { extname, join, posix } from 'node:path';
import { ROOT } from '../api/markdown.js';
import { describeWithChromium } from '../support/describe-if.js';
import { runCommand, UNGUARDED } from '../support/run-command.js';

const BUILD_LIMIT_MS = 180_000;
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
  built = await run(join(bin, 'typedoc/bin/typedoc'));
  if (built.code !== 0) return;
  built = await run(join(bin, 'vitepress/bin/vitepress.js'), 'build', 'docs', '--outDir', site);
}, BUILD_LIMIT_MS);

afterAll(() => rmSync(site, { recursive: true, force: true }));

describe('npm run docs', () => {
  it('runs these two commands', () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    expect(scripts['docs']).toBe('typedoc && exec vitepress build docs');
  });

  it('builds: every public symbol has a comment, and every page is there', () => {
    expect(built).toMatchObject({ code: 0 });
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
});

describeWithChromium('the site in a browser', () => {
  let server: Server;
  let browser: Browser;
  let url: string;
  const requests: string[] = [];
  const complaints: string[] = [];

  beforeAll(async () => {
    server = createServer((request, response) => {
      const path = decodeURIComponent((request.url ?? '/').split('?')[0] as string);
      const file = join(site, fileOf(path));
      if (!existsSync(file)) return response.writeHead(404).end();
      response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'text/plain' });
      response.end(readFileSync(file));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    browser = await chromium.launch({
      executablePath: findChromium() as string,
      args: ['--no-sandbox'],
    });
  });

  afterAll(async () => {
    await browser?.close();
    server?.close();
  });

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
      ['/api/nestjs-locked/typeorm.html', 'nestjs-locked/typeorm'],
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
        ['LOCK_STORE_FAILED', '/operations.html'],
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
      await page.goto(`${url}${path}`, { waitUntil: 'networkidle' });
      return page;
    }
  });

  it('the site has sent no request to the network, and logged no error', () => {
    expect(requests.length).toBeGreaterThan(20);
    expect(requests.filter((address) => !address.startsWith(url))).toEqual([]);
    expect(complaints).toEqual([]);
  });
});

async function violationsOn(page: Page): Promise<string[]> {
  await page.addScriptTag({ content: axe.source });
  // The theme shows the keys of its search button beside the name of that button.
  const rules = { 'label-content-name-mismatch': { enabled: false } };
  return page.evaluate<string[]>(`
    axe.run(document, { rules: ${JSON.stringify(rules)} }).then((result) =>
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
