import { describe, expect, it } from '@jest/globals';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Hold } from '../../libs/nestjs-locked/src/core/queue/hold.js';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { CommitWait } from '../../libs/nestjs-locked/src/transactions/scope/commit-wait.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { standStill } from '../support/stand-still.js';

const LEASE_MS = 30;

/** A lease that begins now, and is not renewed. */
function leaseFromNow(): Hold {
  const until = performance.now() + LEASE_MS;
  const hold = {
    options: { leaseMs: LEASE_MS },
    leaseLeftMs: () => Math.max(0, until - performance.now()),
    commitIsLate: () => {},
    commitCame: () => {},
  };
  return hold as unknown as Hold;
}

/** Both ends of a connection. */
async function connection(): Promise<readonly [client: Socket, server: Socket]> {
  const server = createServer();
  afterTest(() => void server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [[own]] = await Promise.all([accepted, once(client, 'connect')]);
  for (const end of [client, own]) afterTest(() => void end.destroy());
  return [client, own];
}

describe('the wait for the answer to a COMMIT', () => {
  /** The process stands still until the lease is over. */
  const outcome = async (answer: (server: Socket) => void): Promise<readonly string[]> => {
    const [client, server] = await connection();
    const told: string[] = [];
    const hold = leaseFromNow();
    const wait = new CommitWait(
      () => [hold],
      () => told.push('overdue'),
    );
    client.on('data', () => {
      told.push('answered');
      wait.end();
    });
    await nextTurn(); // timers are due before anything is read
    wait.begin();
    answer(server);
    standStill(10 * LEASE_MS);
    await eventually(() => expect(told).not.toEqual([]));
    await nextTurn();
    return told;
  };

  it('is not over while the answer lies unread, because the process has stood still', async () => {
    expect(await outcome((server) => server.write('COMMIT'))).toEqual(['answered']);
  });

  it('is over with the lease if there is no answer', async () => {
    expect(await outcome(() => {})).toEqual(['overdue']);
  });

  it('is late after a third of the lease, so that it is not renewed until the answer comes', async () => {
    const told: string[] = [];
    const hold = {
      ...leaseFromNow(),
      options: { leaseMs: 600 },
      leaseLeftMs: () => 600, // it is renewed all the time
      commitIsLate: () => told.push('late'),
    } as unknown as Hold;
    const wait = new CommitWait(
      () => [hold],
      () => {},
    );
    systemClock.after(400, () => told.push('two thirds'));
    wait.begin();
    await eventually(() => expect(told).toContain('two thirds'));
    wait.end();
    expect(told).toEqual(['late', 'two thirds']);
  });
});
