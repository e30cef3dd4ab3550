import { describe, expect, it } from '@jest/globals';
import type { ScriptBench } from '../../support/script-bench.js';
import { BLOCK } from '../../support/script-replies.js';
import { useScripts } from '../../support/use-scripts.js';

const { newBench, heldBench } = useScripts();

describe('revoke', () => {
  it('takes the lock for a second, notifies its holder, and tells the first live waiter when it ends', async () => {
    const { bench, holder, token, fence } = await heldBench();
    const waiter = await bench.peer();
    const waiting = waiter.token();
    await bench.enqueue(bench.deadToken(), waiting);

    expect(await revokeAndLook(bench, token)).toEqual({
      lock: 'revoked:id',
      queue: [waiting, expect.any(String)],
      fence: String(fence + BLOCK),
    });
    expect(await holder.heard()).toEqual([`r ${token} stock:42`]);
    expect(await waiter.heard()).toEqual([`h ${waiting} 1000 stock:42`]);
  });

  it('takes the lock of a foreign holder, and does nothing without a holder', async () => {
    const bench = newBench();
    expect(await bench.revoke('id')).toBeNull();
    expect(await bench.redis.exists(...bench.keys)).toBe(0);
    await bench.setEndless(bench.lock, 'somebody');

    expect((await revokeAndLook(bench, 'somebody')).lock).toBe('revoked:id');
  });

  it('does nothing a second time, and does not restart its second', async () => {
    const { bench } = await heldBench();
    await newBench().revoke('id'); // now the server knows the script
    await bench.revoke('first');
    expect(await bench.revoke('second')).toBeNull();
    expect((await bench.state()).lock).toBe('revoked:first');
  });

  /** Checks in the same round trip: it is over in a second. */
  async function revokeAndLook(bench: ScriptBench, holder: string) {
    await newBench().revoke('id'); // now the server knows the script
    const [revoked, state, leftMs] = await Promise.all([
      bench.revoke('id'),
      bench.state(),
      bench.lockLifeMs(),
    ]);
    expect(revoked).toEqual([holder]);
    expect(leftMs).toBeLessThanOrEqual(1_000);
    expect(leftMs).toBeGreaterThan(300); // usually all but a millisecond
    return state;
  }
});
