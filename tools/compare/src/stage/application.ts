import type { INestApplicationContext, ModuleMetadata } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';

class Root {}

export type Application = INestApplicationContext;

/** A Nest application without a port. */
export function startApplication(metadata: ModuleMetadata): Promise<Application> {
  return NestFactory.createApplicationContext(
    { module: Root, ...metadata },
    { logger: false, abortOnError: false },
  );
}

/** A Nest application on HTTP. @returns where it can be reached */
export async function startServer(metadata: ModuleMetadata): Promise<string> {
  const app = await NestFactory.create(
    { module: Root, ...metadata },
    { logger: false, abortOnError: false },
  );
  await app.listen(0, '127.0.0.1');
  return app.getUrl();
}
