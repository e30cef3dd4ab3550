import { afterAll, beforeAll } from '@jest/globals';
import { findChromium } from 'dev-servers';
import { type Browser, chromium } from 'playwright-core';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A page opened here has neither cookies nor storage of another one. */
export type OwnChromium = Pick<Browser, 'newPage' | 'newContext'>;

/** A Chromium for one `describeWithChromium`, from the first `beforeAll` to the end. */
export function useChromium(): OwnChromium {
  let browser: Browser | undefined;
  beforeAll(async () => {
    browser = await chromium.launch({
      executablePath: findChromium() as string,
      args: ['--no-sandbox'],
    });
  });
  afterAll(() => browser?.close());
  return {
    newPage: (options) => (browser as Browser).newPage(options),
    newContext: (options) => (browser as Browser).newContext(options),
  };
}

/** A server for the pages of one suite. Its `url` ends without a slash, and is known from the first `beforeAll` on. */
export function usePages(answer: RequestListener): { readonly url: string } {
  let server: Server | undefined;
  beforeAll(async () => {
    const opened = createServer(answer);
    server = opened;
    await new Promise<void>((resolve) => opened.listen(0, '127.0.0.1', resolve));
  });
  afterAll(() => void server?.close());
  return {
    get url() {
      return `http://127.0.0.1:${(server?.address() as AddressInfo).port}`;
    },
  };
}
