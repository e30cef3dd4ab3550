import { expect, it } from '@jest/globals';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { Watcher } from '../../libs/nestjs-locked/src/dashboard/watcher.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';

const MESSAGE = 'x'.repeat(1_000_000);

it('keeps at most one message for a client that does not read, and goes on when it reads', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  afterTest(() => server.close());
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  socket.pause();
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  const [, response] = (await once(server, 'request')) as [unknown, ServerResponse];
  let hasEnded = false;
  const watcher = new Watcher(response, '*', 'read', () => (hasEnded = true));
  let sent = 0;
  for (let i = 0; i < 30; i++) {
    if (watcher.send('look', MESSAGE)) sent++;
    await new Promise(setImmediate);
  }
  expect(sent).toBeLessThan(30);
  expect(response.writableLength).toBeLessThan(2 * MESSAGE.length);
  socket.resume();
  await eventually(() => expect(watcher.send('look', MESSAGE)).toBe(true));
  socket.destroy();
  await eventually(() => expect(hasEnded).toBe(true));
});
