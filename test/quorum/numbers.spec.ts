import { describe, expect, it } from '@jest/globals';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { openQuorumLocks, useQuorum } from '../support/own-quorum.js';
import { uniqueKey } from '../support/unique-key.js';

/** What a table sees whose rows have the fence: who is inside, and the highest number so far. */
class Judge {
  inside = 0;
  highest = 0;
  holds = 0;
  readonly violations: string[] = [];

  enters(by: number, number: number): void {
    if (++this.inside > 1) this.violations.push(`${by} came although another one was inside`);
    if (number <= this.highest) this.violations.push(`${by} has ${number} after ${this.highest}`);
    this.highest = Math.max(this.highest, number);
    this.holds++;
  }

  leaves(): void {
    this.inside--;
  }
}

/** A way to a server that delays everything by this much, there and back. Closed after the test. */
async function distant(port: number, ms: number): Promise<string> {
  const pass = (from: Socket, to: Socket): void => {
    from.on('data', (data) => void setTimeout(() => to.write(data), ms));
    from.on('error', () => to.destroy());
    from.on('close', () => to.destroy());
  };
  const server = createServer((client) => {
    const target = connect(port, '127.0.0.1');
    pass(client, target);
    pass(target, client);
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  afterTest(() => server.close());
  return `redis://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe.each([3, 5])('fencing numbers of a quorum of %i', (size) => {
  const quorum = useQuorum(size);
  const PROCESSES = 16;

  it('rise from hold to hold, whichever nodes vote for each, and however far their clocks are apart [G55]', async () => {
    const key = uniqueKey('rises');
    const judge = new Judge();
    // Each node knows another number, as if its clock were seconds ahead of the others.
    await Promise.all(
      quorum.admins.map((admin, n) => {
        const ahead = (Date.now() + n * 2_500) * 1_000;
        return admin.set(`lock:{${key}}:fence`, `${ahead} ${ahead}`);
      }),
    );
    // Each process is near to other nodes, and so gets its votes from them.
    const services = await Promise.all(
      Array.from({ length: PROCESSES }, async (_, i) => {
        const ways = quorum.servers.map(({ port }, n) => distant(port, (i * 7 + n * 5) % 11));
        return openQuorumLocks(await Promise.all(ways), { leaseMs: 10_000, waitMs: 120_000 });
      }),
    );
    const until = performance.now() + 6_000;
    await Promise.all(
      services.map(async ({ engine }, i) => {
        for (let n = 0; n < 5 || performance.now() < until; n++) {
          await engine.withLock(key, {}, async (lock) => {
            judge.enters(i, lock.fencingToken);
            await sleep(Math.random() * 4);
            judge.leaves();
          });
          // Single tries lose rounds, and their votes come late.
          const single = await engine.tryAcquire(key);
          if (single === null) continue;
          judge.enters(i, single.fencingToken);
          judge.leaves();
          await single.release();
        }
      }),
    );
    expect(judge.violations).toEqual([]);
    expect(judge.holds).toBeGreaterThan(5 * PROCESSES);
  });
});
