/** The report of the run that was saved, at a desk and on a phone: one screen tells it, and nothing is cut off. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Page } from 'playwright-core';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describeWithChromium } from '../../../test/support/describe-if.js';
import { useChromium } from '../../../test/support/own-chromium.js';
import { writePages } from '../src/report/write-report.js';
import { STAGES } from '../src/stages/index.js';

const folder = mkdtempSync(join(tmpdir(), 'lock-lab-layout-'));
const report = join(folder, 'public/lab/report.html');

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describeWithChromium('the report', () => {
  beforeAll(() => void writePages(folder), 60_000);
  const browser = useChromium();

  describe.each([
    ['a phone', 390, 844],
    ['a laptop', 1280, 800],
    ['a desk', 1440, 900],
  ] as const)('on %s, %i by %i', (device, width, height) => {
    it('shows the matrix and its legend in the first screen', async () => {
      const page = await open();
      const legend = await boxOf(page, '#matrix .legend');
      const heads = await boxOf(page, '.matrix thead');
      expect(legend.top).toBeGreaterThanOrEqual(0);
      expect(heads.top).toBeGreaterThanOrEqual(legend.bottom);
      const shown = await page.evaluate<number>(
        `[...document.querySelectorAll('.matrix tbody tr')]
          .filter((row) => row.getBoundingClientRect().bottom <= innerHeight).length`,
      );
      // On a phone, the others are one swipe away, under heads that stay.
      expect(shown).toBeGreaterThanOrEqual(device === 'a phone' ? 10 : STAGES.length);
    });

    it('folds the details, so that it is short', async () => {
      const page = await open();
      expect(await page.locator('details[open]').count()).toBe(0);
      const long = await page.evaluate<number>('document.documentElement.scrollHeight');
      expect(long).toBeLessThanOrEqual(device === 'a phone' ? 2_800 : 2_000);
    });

    it('cuts nothing off, folded or not', async () => {
      const page = await open();
      expect(await page.evaluate(CUT)).toEqual([]);
      await page.evaluate(
        `for (const each of document.querySelectorAll('details')) each.open = true`,
      );
      expect(await page.evaluate(CUT)).toEqual([]);
    });

    it('shows the red overlap of the first pictures without scrolling sideways', async () => {
      const page = await open();
      const ends = await page.evaluate<number[]>(
        `[...document.querySelectorAll('.hero rect.both')]
          .map((bar) => bar.getBoundingClientRect())
          .filter((box) => box.width > 0)
          .map(({ right }) => right)`,
      );
      expect(ends.length).toBeGreaterThanOrEqual(4);
      expect(Math.max(...ends)).toBeLessThanOrEqual(width);
    });

    async function open(): Promise<Page> {
      const page = await browser.newPage({ viewport: { width, height } });
      await page.goto(pathToFileURL(report).href);
      return page;
    }
  });

  it('keeps the heads of the matrix in sight on a phone', async () => {
    const page = await browser.newPage({ viewport: { width: 390, height: 844 } });
    await page.goto(pathToFileURL(report).href);
    await page.locator('.matrix tr.ours').first().scrollIntoViewIfNeeded();
    await page.evaluate('scrollBy(0, 60)');
    expect((await boxOf(page, '.matrix thead')).top).toBeCloseTo(0, 0);
  });

  it('tells late from never in the matrix, with marks that the legend explains', async () => {
    const page = await browser.newPage();
    await page.goto(pathToFileURL(report).href);
    const cell = (stage: string): Promise<string | null> =>
      page.locator(`.matrix a[href="#t-${stage}-pause"]`).textContent();
    await expect(cell('14')).resolves.toContain('stock wrong, told late');
    await expect(cell('13')).resolves.toContain('stock wrong, never told');
    await expect(cell('2')).resolves.not.toContain('told');
    const legend = page.locator('#matrix .legend');
    await expect(legend.textContent()).resolves.toMatch(/told late.*never told/s);
    const marks = [page.locator('.legend .clock'), page.locator('.cell .clock')];
    for (const mark of marks) expect(await mark.count()).toBeGreaterThan(0);
  });
});

/**
 * What is cut off: what lies beyond the edges of the window, unless a frame around it scrolls, and text that is wider
 * than its cell.
 */
const CUT = `(() => {
  const cut = [];
  for (const each of document.querySelectorAll('body *')) {
    const box = each.getBoundingClientRect();
    if (box.width === 0 || each.closest('.unseen, .skip, .tip, .scroll *')) continue;
    if (box.left < -0.5 || box.right > innerWidth + 0.5) cut.push(each.outerHTML.slice(0, 80));
  }
  for (const cell of document.querySelectorAll('.matrix th, .matrix td, .measures th, .measures td')) {
    if (cell.scrollWidth > cell.clientWidth + 1) cut.push('too narrow: ' + cell.textContent);
  }
  for (const frame of document.querySelectorAll('.frame')) {
    if (frame.scrollWidth > frame.clientWidth + 1) cut.push('too wide: ' + frame.textContent.slice(0, 40));
  }
  return cut;
})()`;

async function boxOf(page: Page, selector: string): Promise<{ top: number; bottom: number }> {
  return page.evaluate(
    `(({ top, bottom }) => ({ top, bottom }))(document.querySelector('${selector}').getBoundingClientRect())`,
  );
}
