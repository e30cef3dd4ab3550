/** Runs in the project into which docs/tenants.md was compiled: requests of two tenants, and calls without a tenant. */
import type { Type } from '@nestjs/common';
import { Controller, Param, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ClsService } from 'nestjs-cls';
import { LockService } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';

interface Invoices {
  issue(number: number): Promise<void>;
}

// As variables, because these files are there only in the project into which this one is copied.
const [service, module] = ['./invoices.service.js', './app.module.js'];
const { InvoicesService } = (await import(service)) as { InvoicesService: Type<Invoices> };
const { AppModule } = (await import(module)) as { AppModule: Type };

@Controller()
class InvoicesController {
  @Post('invoices/:number')
  issue(@Param('number') number: string): Promise<void> {
    return app.get(InvoicesService).issue(Number(number));
  }
}

const app = await NestFactory.create(
  { module: class Root {}, imports: [AppModule], controllers: [InvoicesController] },
  { logger: false, abortOnError: false },
);
await app.listen(0, '127.0.0.1');
const url = await app.getUrl();
const [locks, cls] = [app.get(LockService), app.get(ClsService)];
const invoices = app.get(InvoicesService);

/** The keys that are held while this runs. */
async function keysOf(call: Promise<unknown>): Promise<string[] | string> {
  const failed = call.then(
    () => undefined,
    (error: { code?: string }) => String(error.code),
  );
  await sleep(150);
  const keys: string[] = [];
  for await (const { key } of locks.list('invoice:*')) keys.push(key);
  return (await failed) ?? keys.sort();
}

const post = (tenant?: string): Promise<Response> =>
  fetch(`${url}/invoices/7`, {
    method: 'POST',
    headers: tenant === undefined ? {} : { 'x-tenant': tenant },
  });

const twoTenants = await keysOf(Promise.all([post('acme'), post('a:b'), post('acme')]));
const job = await keysOf(
  cls.run(() => {
    cls.set('tenant', 'acme');
    return invoices.issue(7);
  }),
);
const without = await keysOf(invoices.issue(7));
const status = (await post()).status;
await app.close();
console.log(JSON.stringify({ twoTenants, job, without, status }));
