import { expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { LockStoreError } from 'nestjs-locked';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  LOCK_OVERVIEW,
  type LockOverview,
} from '../../libs/nestjs-locked/src/core/lock-overview.js';
import { History } from '../../libs/nestjs-locked/src/dashboard/history.js';
import { LiveView } from '../../libs/nestjs-locked/src/dashboard/live-view.js';
import { OperatorLog } from '../../libs/nestjs-locked/src/dashboard/operator-log.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';

const NOTHING: LockOverview = {
  held: 0,
  waiting: 0,
  oldestWaitMs: 0,
  locks: [],
  ask: async () => ({ waits: [], silent: 0, present: (lock) => lock }),
  isPartial: false,
};

/** A view that looks in this way, and a client. */
async function watch(look: () => Promise<LockOverview>) {
  const log = new OperatorLog();
  const history = new History(undefined);
  const view = new LiveView({
    service: undefined,
    locks: { [LOCK_OVERVIEW]: async () => [await look()] },
    history,
    log,
  });
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  const [, response] = (await once(server, 'request')) as [unknown, ServerResponse];
  afterTest(() => {
    view.close();
    history.end();
    socket.destroy();
    server.close();
  });
  let text = '';
  socket.on('data', (chunk) => (text += String(chunk)));
  view.watch(response, '*', 'admin');
  return { view, log, response, seen: () => text };
}

it('looks again soon after a look that has failed, however long that took', async () => {
  const looks: number[] = [];
  const { seen } = await watch(async () => {
    looks.push(performance.now());
    if (looks.length > 1) return NOTHING;
    await sleep(1_000);
    throw new LockStoreError('away');
  });
  await eventually(() => expect(seen()).toContain('"problem":null'));
  const [first, second] = looks as [number, number];
  expect(second - first).toBeGreaterThan(1_900);
  expect(second - first).toBeLessThan(3_500);
});

it('leaves Redis its time after a look that took long', async () => {
  const looks: number[] = [];
  await watch(async () => {
    looks.push(performance.now());
    await sleep(500);
    return NOTHING;
  });
  await eventually(() => expect(looks.length).toBeGreaterThan(1));
  const [first, second] = looks as [number, number];
  expect(second - first).toBeGreaterThan(2_400);
});

it('tells nobody about a failure of its own, which is in the log', async () => {
  const logged = jest.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
  afterTest(() => logged.mockRestore());
  const { seen } = await watch(() => Promise.reject(new TypeError('secret')));
  await eventually(() => expect(seen()).toContain('"problem":"The locks cannot be shown.'));
  expect(seen()).not.toContain('secret');
  expect(logged.mock.calls.join()).toContain('secret');
});

it('tells what operators did although each look fills the connection', async () => {
  const { view, log, response, seen } = await watch(async () => NOTHING);
  await eventually(() => expect(seen()).toContain('event: look'));
  // A network that takes each message only after the next one was to be written.
  let filled = 0;
  Object.defineProperty(response, 'writableLength', { get: () => filled });
  const write = response.write.bind(response) as (chunk: string) => boolean;
  response.write = ((chunk: string) => {
    filled = chunk.startsWith('event: look') ? 1_000_000 : filled;
    setImmediate(() => (filled = 0));
    return write(chunk);
  }) as typeof response.write;
  filled = 1_000_000;
  log.add('anna', 'stock:42', 'released');
  view.tellLog();
  filled = 0;
  await eventually(() => expect(seen()).toContain('"operator":"anna"'));
});
