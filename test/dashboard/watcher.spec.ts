import { expect, it, jest } from '@jest/globals';
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import * as http2 from 'node:http2';
import { type AddressInfo, connect } from 'node:net';
import { Watcher } from '../../libs/nestjs-locked/src/dashboard/watcher.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';

const MESSAGE = 'x'.repeat(1_000_000);

/** A client that does not read. */
interface Client {
  readonly read: () => void;
  readonly leave: () => void;
}

const PROTOCOLS: Record<string, [() => unknown, (port: number) => Client]> = {
  'HTTP/1': [
    createServer,
    (port) => {
      const socket = connect(port, '127.0.0.1');
      socket.pause();
      socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
      return { read: () => socket.resume(), leave: () => socket.destroy() };
    },
  ],
  'HTTP/2': [
    http2.createServer,
    (port) => {
      const session = http2.connect(`http://127.0.0.1:${port}`);
      const stream = session.request().pause();
      return { read: () => stream.resume(), leave: () => session.destroy() };
    },
  ],
};

/** A watcher of a client that does not read. */
async function watch(protocol: string, onEnd: () => void) {
  const [create, open] = PROTOCOLS[protocol] as (typeof PROTOCOLS)[string];
  const server = create() as Server;
  server.listen(0, '127.0.0.1');
  afterTest(() => server.close());
  await once(server, 'listening');
  const client = open((server.address() as AddressInfo).port);
  afterTest(() => client.leave());
  const [, response] = (await once(server, 'request')) as [unknown, ServerResponse];
  return { client, response, watcher: new Watcher(response, '*', 'read', onEnd) };
}

it.each(Object.keys(PROTOCOLS))(
  'keeps at most one message for a client that does not read, and goes on when it reads, over %s',
  async (protocol) => {
    let hasEnded = false;
    const { client, response, watcher } = await watch(protocol, () => (hasEnded = true));
    let sent = 0;
    for (let i = 0; i < 30; i++) {
      if (watcher.send('look', MESSAGE)) sent++;
      await new Promise(setImmediate);
    }
    expect(sent).toBeLessThan(30);
    expect(response.writableLength).toBeLessThan(2 * MESSAGE.length);
    client.read();
    await eventually(() => expect(watcher.send('look', MESSAGE)).toBe(true));
    client.leave();
    await eventually(() => expect(hasEnded).toBe(true));
  },
);

it('ends after half a minute, also for a client that does not read', async () => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] });
  afterTest(() => jest.useRealTimers());
  let hasEnded = false;
  const { response, watcher } = await watch('HTTP/1', () => (hasEnded = true));
  while (watcher.send('look', MESSAGE)) await new Promise(setImmediate);
  await jest.advanceTimersByTimeAsync(29_900);
  expect(hasEnded).toBe(false);
  await jest.advanceTimersByTimeAsync(100);
  expect(hasEnded).toBe(true);
  expect(response.destroyed).toBe(false);
  await jest.advanceTimersByTimeAsync(30_000);
  expect(response.destroyed).toBe(true);
});
