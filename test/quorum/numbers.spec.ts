import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { openQuorumLocks, useQuorum } from '../support/own-quorum.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';

/** A table of a database, as the fence sees it: who is inside, and the highest number that it has seen. */
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

describe('fencing numbers of a quorum', () => {
  const quorum = useQuorum(5);

  it('rise from hold to hold of 16 processes, whichever nodes vote for each [G49]', async () => {
    const key = uniqueKey('rises');
    const judge = new Judge();
    const engines = await Promise.all(
      Array.from({ length: 16 }, async (_, i) => {
        // Each process reaches each node with a delay of its own, so that each gets its votes from other nodes.
        const proxies = await Promise.all(quorum.servers.map(({ port }) => TcpProxy.start(port)));
        proxies.forEach((proxy, n) =>
          proxy.delayAnswers((i * 7 + n * 5) % 12, { alsoToCome: true }),
        );
        const urls = proxies.map(({ url }) => url);
        return openQuorumLocks(urls, { leaseMs: 10_000, waitMs: 120_000 });
      }),
    );
    const until = performance.now() + 8_000;
    await Promise.all(
      engines.map(async ({ engine }, i) => {
        while (performance.now() < until) {
          await engine.withLock(key, {}, async (lock) => {
            judge.enters(i, lock.fencingToken);
            await sleep(Math.random() * 4);
            judge.leaves();
          });
          await sleep(Math.random() * 20);
        }
      }),
    );
    expect(judge.violations).toEqual([]);
    expect(judge.holds).toBeGreaterThan(50);
    console.log('holds', judge.holds);
    void Redis;
    void afterTest;
  });
});
