import type {
  INestApplication,
  INestApplicationContext,
  LoggerService,
  ModuleMetadata,
  Type,
} from '@nestjs/common';
import { type AbstractHttpAdapter, NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { afterTest } from './after-test.js';

const QUIET = { logger: false, abortOnError: false } as const;

/** Starts an application without HTTP whose root module is `root`. Closed after the test. */
export async function startNest(
  root: ModuleMetadata,
  logger: LoggerService | false = false,
): Promise<INestApplicationContext> {
  const app = await NestFactory.createApplicationContext(rootModule(root), { ...QUIET, logger });
  afterTest(() => app.close());
  return app;
}

export interface HttpApp {
  readonly app: INestApplication;
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
}

/** Starts an application with HTTP on a free port, by default with Express. Closed after the test. */
export async function startHttp(
  root: ModuleMetadata,
  configure: (app: INestApplication) => unknown = () => {},
  adapter: AbstractHttpAdapter = new ExpressAdapter(),
): Promise<HttpApp> {
  const app = await NestFactory.create(rootModule(root), adapter, QUIET);
  afterTest(() => app.close());
  configure(app);
  await app.listen(0, '127.0.0.1');
  return { app, url: await app.getUrl() };
}

function rootModule(root: ModuleMetadata): { module: Type } & ModuleMetadata {
  return { module: class Root {}, ...root };
}
