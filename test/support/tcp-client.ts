import type { INestApplication } from '@nestjs/common';
import {
  type ClientProxy,
  ClientProxyFactory,
  type MicroserviceOptions,
  Transport,
} from '@nestjs/microservices';
import type { Server } from 'node:net';
import { afterTest } from './after-test.js';

/** Serves an application's message handlers over TCP on a free port. @returns a client, closed after the test */
export async function connectTcp(app: INestApplication): Promise<ClientProxy> {
  const host = '127.0.0.1';
  const service = app.connectMicroservice<MicroserviceOptions>({
    transport: Transport.TCP,
    options: { host, port: 0 },
  });
  await app.startAllMicroservices();
  const { port } = service.unwrap<Server>().address() as { port: number };
  const client = ClientProxyFactory.create({ transport: Transport.TCP, options: { host, port } });
  afterTest(() => client.close());
  return client;
}
