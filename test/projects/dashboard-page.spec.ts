/** The page of the dashboard in a browser: with hostile names, by keyboard, while it is hidden, with very many keys. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import axe from 'axe-core';
import { transformSync } from 'esbuild';
import { LockService, RedisLockModule } from 'nestjs-locked';
import {
  type DashboardRole,
  LockDashboardModule,
  type LockDashboardOptions,
} from 'nestjs-locked/dashboard';
import type { Locator, Page } from 'playwright-core';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pageTexts } from '../../scripts/dashboard-page.mjs';
import { readDocument, ROOT } from '../api/markdown.js';
import { afterTest } from '../support/after-test.js';
import { describeWithChromium } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { startHttp } from '../support/nest-app.js';
import { openLocks } from '../support/open-locks.js';
import { OtherProcesses } from '../support/other-processes.js';
import { useChromium } from '../support/own-chromium.js';
import { useRedisServer } from '../support/own-redis.js';

it('is the one that the sources make', () => {
  const made = readFileSync(join(ROOT, 'libs/nestjs-locked/src/dashboard/page-texts.ts'), 'utf8');
  expect(made).toBe(pageTexts());
});

/** How far the page is wider than the window. */
const OVERFLOW = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';

/** None of it is valid in HTML, in a URL or in JSON as it is. */
const HOSTILE = [
  '<img src=x onerror=document.title="hacked">',
  '</script><script>document.title="hacked"</script>',
  '"><svg/onload=document.title="hacked">',
  "javascript:document.title='hacked'",
  '{{constructor.constructor("document.title=1")()}}',
  '&lt;b&gt;&amp;amp;',
  '\u202egnp.exe\u202c',
  'אבג:דהו',
  'a\u0000b\u001b[31mc\u200bd\u2028e',
  'x'.repeat(400),
  '%2e%2e/..?a=b#c&d=e',
  'stock:😀:👩‍👩‍👧',
  '__proto__',
];

describe('the example of docs/dashboard.md', () => {
  const server = useRedisServer();

  it('asks for a password, and opens nothing without one', async () => {
    const { blocks } = readDocument('docs/dashboard.md');
    const { code = '' } = blocks.find(({ file }) => file === 'operators.ts') ?? {};
    const folder = mkdtempSync(join(tmpdir(), 'dashboard-example-'));
    afterTest(() => rmSync(folder, { recursive: true }));
    afterTest(() => delete process.env['LOCKS_PASSWORD']);
    const statusOf = async (password: string | undefined, authorization = '') => {
      if (password === undefined) delete process.env['LOCKS_PASSWORD'];
      else process.env['LOCKS_PASSWORD'] = password;
      const file = join(folder, `${password}.mjs`);
      writeFileSync(file, transformSync(code, { loader: 'ts' }).code);
      const { operatorOf } = (await import(file)) as {
        operatorOf: LockDashboardOptions['authorize'];
      };
      const { url } = await startHttp({
        imports: [
          RedisLockModule.forRoot({ connection: server.url }),
          LockDashboardModule.register({
            path: '/locks',
            authorize: operatorOf,
            challenge: 'Basic realm="locks"',
          }),
        ],
      });
      return (await fetch(`${url}/locks/`, { headers: { authorization } })).status;
    };
    const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`;
    expect(await statusOf('right', basic('anna:right'))).toBe(200);
    expect(await statusOf('right', basic('anna:wrong'))).toBe(401);
    expect(await statusOf('right', basic('anna:'))).toBe(401);
    expect(await statusOf('right')).toBe(401);
    expect(await statusOf(undefined, basic('anna:undefined'))).toBe(401);
    expect(await statusOf('', basic('anna:'))).toBe(401);
  });
});

describeWithChromium('the dashboard in Chromium', () => {
  const server = useRedisServer();
  const browser = useChromium();
  const complaints: string[] = [];
  let app: INestApplication;
  let locks: LockService;
  let role: DashboardRole;
  let url: string;

  beforeAll(async () => {
    const root = {
      module: class Root {},
      imports: [
        RedisLockModule.forRoot({ connection: server.url, shutdownMs: 100 }),
        LockDashboardModule.register({
          path: '/locks',
          authorize: () => ({ role, name: '<b>anna</b>' }),
        }),
      ],
    };
    app = await NestFactory.create(root, { logger: false });
    await app.listen(0, '127.0.0.1');
    url = `${await app.getUrl()}/locks`;
    locks = app.get(LockService);
  });

  afterAll(() => app.close());

  beforeEach(async () => {
    role = 'admin';
    complaints.length = 0;
    const keys = await server.admin.keys('lock:{*');
    if (keys.length > 0) await server.admin.del(...keys);
  });

  async function open(): Promise<Page> {
    const page = await browser.newPage();
    page.on('console', (message) => {
      if (message.type() === 'error') complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(error.message));
    await page.goto(url);
    await page.locator('#state', { hasText: 'Live' }).waitFor();
    await page.locator('#shown:not(:empty)').waitFor();
    return page;
  }

  const keyIn = (page: Page, key: string): Locator =>
    page.getByRole('button', { name: key, exact: true });

  it('shows names as what they are, and never carries them out', async () => {
    const others = new OtherProcesses(server.admin);
    for (const [i, text] of HOSTILE.entries()) {
      // No call of ours can have braces, < or control characters in a key, but they are in the label and the host.
      const isKey = !/[<{}\p{Cc}\u2028]/u.test(text);
      await others.hold(isKey ? text : `key${i}`, { label: text, host: text, process: i + 10 });
      await others.wait(isKey ? text : `key${i}`, { label: text, host: text, process: i + 50 });
    }
    await others.hold('long', { label: `<b>${'y'.repeat(4_000)}` });
    const page = await open();
    const rows = page.locator('#locks tbody tr');
    await eventually(async () => expect(await rows.count()).toBe(HOSTILE.length + 1));
    for (let i = 0; i < HOSTILE.length + 1; i++) {
      await rows.nth(i).getByRole('button').click();
      await page.locator('.detail h3', { hasText: /wait/i }).waitFor();
      await page.locator('tbody [aria-expanded=true]').click();
    }
    expect(await page.title()).toBe('Locks');
    expect(
      await page.locator('main :is(img, script, b:not(.number-card b), svg[onload])').count(),
    ).toBe(0);
    const text = (await page.locator('#locks').innerText()).replace(/\s+/g, ' ');
    expect(text).toContain('<img src=x onerror=document.title="hacked">');
    expect(text).toContain('\\u{202e}gnp.exe\\u{202c}');
    expect(text).toContain('a\\u{0}b\\u{1b}[31mc\\u{200b}d\\u{2028}e');
    expect(text).not.toContain('y'.repeat(1_000));
    expect(await page.evaluate<number>(OVERFLOW)).toBeLessThanOrEqual(0);
    expect(complaints).toEqual([]);
    await page.close();
  });

  it('shows at once what changes', async () => {
    const page = await open();
    expect(await page.locator('#none').innerText()).toBe('No lock is held.');
    const lock = await locks.acquire('order:7', { label: 'OrderService.pay' });
    await keyIn(page, 'order:7').waitFor();
    const wait = locks.acquire('order:7', { label: 'OrderService.refund' });
    await keyIn(page, 'order:7').click();
    await page.locator('.detail li', { hasText: 'OrderService.refund' }).waitFor();
    await page.locator('.detail dd', { hasText: String(lock.fencingToken) }).waitFor();
    await lock.release();
    await page.locator('td', { hasText: 'OrderService.refund' }).first().waitFor();
    await (await wait).release();
    await keyIn(page, 'order:7').waitFor({ state: 'detached' });
    await page.close();
  });

  it('asks for nothing while it is hidden or paused', async () => {
    const page = await open();
    const state = page.locator('#state');
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    const hide = (hidden: boolean) =>
      page.evaluate(
        `Object.defineProperty(document, 'hidden', { value: ${hidden}, configurable: true });
        document.dispatchEvent(new Event('visibilitychange'))`,
      );
    await hide(true);
    expect(await state.innerText()).toBe('Paused while hidden');
    await locks.withLock('late', async () => {
      await page.waitForTimeout(2_500);
      expect(await keyIn(page, 'late').count()).toBe(0);
      expect(asked).toEqual([]);
      await hide(false);
      await keyIn(page, 'late').waitFor();
      await page.getByRole('button', { name: 'Pause' }).click();
    });
    expect(await state.innerText()).toBe('Paused');
    await page.waitForTimeout(2_000);
    expect(await keyIn(page, 'late').count()).toBe(1);
    await page.getByRole('button', { name: 'Pause' }).click();
    await keyIn(page, 'late').waitFor({ state: 'detached' });
    await page.close();
  });

  it('stays live when the stream ends for a new question who watches, and obeys the answer', async () => {
    await locks.withLock('stock:42', async () => {
      const page = await open();
      await keyIn(page, 'stock:42').click();
      const button = page.getByRole('button', { name: 'Release…' });
      await button.waitFor();
      await page.evaluate(
        `globalThis.states = [];
        new MutationObserver(() => states.push(document.querySelector('#state').textContent))
          .observe(document.querySelector('#state'), { childList: true, characterData: true, subtree: true })`,
      );
      role = 'read';
      await page.waitForResponse(/\/events/, { timeout: 60_000 });
      await button.waitFor({ state: 'hidden' });
      const states = await page.evaluate<string[]>('states');
      expect(states.filter((state) => state !== 'Live')).toEqual([]);
      await page.close();
    });
  });

  it('releases a lock by keyboard alone', async () => {
    const key = 'stock:42';
    const lock = await locks.acquire(key);
    const page = await open();
    await focusByTab(page, (text) => text === key);
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Release…' }).waitFor();
    await focusByTab(page, (text) => text === 'Release…');
    await page.keyboard.press('Enter');
    await page.keyboard.type('stock:4');
    await page.keyboard.press('Enter');
    await page.waitForTimeout(300);
    expect(lock.isHeld).toBe(true);
    await page.keyboard.type('2');
    await page.keyboard.press('Enter');
    await page.locator('#told', { hasText: `${key}: The lock was released.` }).waitFor();
    expect(lock.isHeld).toBe(false);
    const entry = page.locator('#log li').first();
    expect(await entry.innerText()).toContain(`<b>anna</b>: ${key} released`);
    await page.close();
  });

  it('leaves the focus and the selection where they are while other rows come and go', async () => {
    const others = await Promise.all(['a:1', 'a:2', 'a:3'].map((key) => locks.acquire(key)));
    await locks.withLock('stock:42', async () => {
      const page = await open();
      await keyIn(page, 'stock:42').click();
      await page.getByRole('button', { name: 'Release…' }).focus();
      await page.evaluate(
        `globalThis.focusMoves = 0;
         document.addEventListener('focusout', () => focusMoves++);
         getSelection().selectAllChildren(document.querySelector('.detail dd bdi'))`,
      );
      for (const lock of others) {
        await lock.release();
        await page.waitForTimeout(1_200);
      }
      await keyIn(page, 'a:3').waitFor({ state: 'detached' });
      expect(await page.evaluate('[focusMoves, String(getSelection())]')).toEqual([0, 'stock:42']);
      await page.close();
    });
  });

  it('leaves the selection in the list of waits', async () => {
    const [a, b] = await Promise.all([locks.acquire('a'), locks.acquire('b')]);
    const waiting = [a.run(() => locks.acquire('b')), locks.acquire('a')];
    const page = await open();
    await page.locator('#waits li').waitFor();
    await page.evaluate(`getSelection().selectAllChildren(document.querySelector('#waits code'))`);
    const before = await page.locator('#waits li').innerText();
    await eventually(async () =>
      expect(await page.locator('#waits li').innerText()).not.toBe(before),
    );
    expect(await page.evaluate('String(getSelection())')).toBe('a');
    await b.release();
    await a.release();
    for (const lock of await Promise.all(waiting)) await lock.release();
    await page.close();
  });

  it('filters by as much as can be typed', async () => {
    const page = await open();
    await page.getByRole('searchbox').pressSequentially('y'.repeat(200));
    await page.locator('#none', { hasText: 'No key that is held matches' }).waitFor();
    await page.close();
  });

  it('says how old its numbers are', async () => {
    const page = await open();
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.locator('#age', { hasText: /^as of [67].. s ago$/ }).waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.locator('#age:empty').waitFor({ state: 'attached' });
    await page.close();
  });

  it('leaves the dialog with Escape, with the focus where it was', async () => {
    await locks.withLock('stock:42', async () => {
      const page = await open();
      await keyIn(page, 'stock:42').click();
      const button = page.getByRole('button', { name: 'Release…' });
      await button.click();
      await page.keyboard.press('Escape');
      expect(await page.getByRole('dialog').count()).toBe(0);
      await page.waitForTimeout(1_500);
      expect(await page.locator('button:focus').innerText()).toBe('Release…');
      await page.close();
    });
  });

  it('says so if somebody else has got the lock meanwhile', async () => {
    const first = await locks.acquire('stock:42');
    const page = await open();
    await keyIn(page, 'stock:42').click();
    await page.getByRole('button', { name: 'Release…' }).click();
    await page.locator('#release-typed').fill('stock:42');
    await first.release();
    const second = await locks.acquire('stock:42');
    await page.keyboard.press('Enter');
    await page.locator('#release-problem', { hasText: 'Nothing was released' }).waitFor();
    expect(second.isHeld).toBe(true);
    await page.close();
    await second.release();
  });

  it('names all readers of a key, and says that they all lose it', async () => {
    const opened = await Promise.all([1, 2].map(() => openLocks(server.url)));
    const label = (i: number) => `Report.of${i}`;
    const readers = [await locks.acquire('stock:42', { mode: 'shared', label: label(0) })];
    const page = await open();
    await page.locator('td', { hasText: ', which reads' }).waitFor();
    await page.locator('td', { hasText: label(0) }).waitFor();
    for (const [i, { engine }] of opened.entries())
      readers.push(await engine.acquire('stock:42', { mode: 'shared', label: label(i + 1) }));
    await page.locator('td', { hasText: '3 readers' }).waitFor();
    await page.locator('td', { hasText: label(0) }).waitFor({ state: 'detached' });
    await keyIn(page, 'stock:42').click();
    const listed = page.locator('.detail dd li');
    await eventually(async () => expect(await listed.count()).toBe(3));
    const texts = await listed.allInnerTexts();
    for (const [i, text] of texts.entries()) expect(text).toMatch(`${label(i)}, `);
    await page.getByRole('button', { name: 'Release…' }).click();
    expect(await page.locator('#release-who').innerText()).toBe(
      'Held by 3 readers, which all lose it.',
    );
    await page.locator('#release-typed').fill('stock:42');
    await page.keyboard.press('Enter');
    await page.locator('#told', { hasText: 'stock:42: The lock was released.' }).waitFor();
    await eventually(() => expect(readers.map(({ isHeld }) => isHeld)).not.toContain(true));
    expect(complaints).toEqual([]);
    await page.close();
  });

  it('tells of a ring through one of several readers', async () => {
    const [{ engine }] = await Promise.all([openLocks(server.url)]);
    const options = { waitMs: 20_000, leaseMs: 60_000 };
    const reads = { mode: 'shared', ...options } as const;
    const outer = await engine.acquire('a', { ...options, label: 'Writer.outer' });
    const reader = await locks.acquire('b', { ...reads, label: 'Report.outer' });
    const other = await engine.acquire('b', { ...reads, label: 'Other.outer' });
    const waits = [
      outer.run(() => engine.acquire('b', { ...options, label: 'Writer.inner' })),
      reader.run(() => locks.acquire('a', { ...options, label: 'Report.inner' })),
      other.run(() => engine.acquire('a', { ...options, label: 'Other.inner' })),
    ];
    const page = await open();
    const item = page.locator('#waits li', { hasText: /^Deadlock: Writer.inner/ });
    await item.waitFor();
    await eventually(async () => {
      const text = await item.innerText();
      expect(text).toMatch(
        /which is held by Report.inner .* and Other.inner|Other.inner .* and Report.inner/,
      );
    });
    await page.close();
    for (const lock of [outer, reader, other]) await lock.release();
    for (const it of await Promise.allSettled(waits))
      if (it.status === 'fulfilled') await it.value.release();
  });

  it('has no button to release for those who may only look', async () => {
    role = 'read';
    await locks.withLock('stock:42', async () => {
      const page = await open();
      await keyIn(page, 'stock:42').click();
      await page.locator('.detail h3', { hasText: 'Nobody waits.' }).waitFor();
      expect(await page.getByRole('button', { name: 'Release…' }).count()).toBe(0);
      await page.close();
    });
  });

  it('lists the most wanted of 10,000 keys, and finds the others by a filter', async () => {
    const others = new OtherProcesses(server.admin);
    await others.holdAll(Array.from({ length: 10_000 }, (_, i) => `user:${i}`));
    await others.wait('user:7777');
    const page = await open();
    await page.locator('#shown', { hasText: '10,000 held' }).waitFor();
    const rows = page.locator('#locks tbody tr');
    expect(await rows.count()).toBe(200);
    expect(await rows.first().innerText()).toContain('user:7777');
    await page.getByRole('searchbox').fill('user:99?');
    await page.locator('#shown', { hasText: '10 match' }).waitFor();
    expect(await rows.count()).toBe(10);
    await page.getByRole('searchbox').fill('er:123');
    await page.locator('#shown', { hasText: '11 match' }).waitFor();
    await page.getByRole('searchbox').fill('{');
    await page.locator('#problem', { hasText: "no key has '<', '{' or '}'" }).waitFor();
    await page.close();
  });

  it.each(['light', 'dark'] as const)('is accessible in %s', async (colorScheme) => {
    const others = new OtherProcesses(server.admin);
    await others.hold('stock:42', { agoMs: 90_000 });
    await others.wait('stock:42', { agoMs: 9_000 });
    await others.read('stock:42', 3);
    const context = await browser.newContext({ colorScheme, bypassCSP: true });
    const page = await context.newPage();
    await page.goto(url);
    await keyIn(page, 'stock:42').click();
    const button = page.getByRole('button', { name: 'Release…' });
    await button.waitFor();
    await page.addScriptTag({ content: axe.source });
    const check = async () => {
      const { violations } = await page.evaluate<axe.AxeResults>('axe.run()');
      return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
    };
    expect(await check()).toEqual([]);
    await button.click();
    expect(await check()).toEqual([]);
    await context.close();
  });

  it('fits a phone', async () => {
    const others = new OtherProcesses(server.admin);
    await others.hold(`order:${'7'.repeat(60)}`, { label: 'A'.repeat(80) });
    const page = await open();
    await page.setViewportSize({ width: 390, height: 844 });
    // What was seen last, in the test before, may come first.
    await page.locator('tbody button', { hasText: 'order:7777' }).click();
    await page.getByRole('button', { name: 'Release…' }).waitFor();
    expect(await page.evaluate<number>(OVERFLOW)).toBeLessThanOrEqual(0);
    await page.close();
  });
});

/** Presses Tab until an element with this text has the focus. */
async function focusByTab(page: Page, isMeant: (text: string) => boolean): Promise<void> {
  for (let i = 0; i < 30; i++) {
    await page.keyboard.press('Tab');
    const text = await page.evaluate<string>('document.activeElement.textContent');
    if (isMeant(text)) return;
  }
  throw new Error('no such element has a focus');
}
