import { describe, expect, it } from '@jest/globals';
import { RedisScript } from '../../../libs/nestjs-locked/src/redis/scripts/redis-script.js';
import { withoutTime } from '../../support/other-server.js';
import { runScript } from '../../support/run-script.js';
import { useScripts } from '../../support/use-scripts.js';

const { newBench } = useScripts();

describe('probe', () => {
  it('publishes to the inbox, reports how many listen, and leaves nothing', async () => {
    const bench = newBench();
    const peer = await bench.peer();
    const keys = [bench.lock, bench.queue];

    for (const attempt of ['first', 'repeated']) {
      const reply = await runScript(bench.redis, bench.scripts.probe, keys, [
        peer.channel,
        'probe',
      ]);

      expect([attempt, reply]).toEqual([attempt, 1]);
      expect(await peer.heard()).toEqual(['probe']);
      expect(await bench.redis.exists(...keys)).toBe(0);
    }
  });

  it('fails on a server whose TIME answers zero in a script', async () => {
    const bench = newBench();
    const keys = [bench.lock, bench.queue];
    const script = new RedisScript('probe', withoutTime(bench.scripts.probe.lua));

    await expect(
      runScript(bench.redis, script, keys, [bench.inboxPrefix, 'probe']),
    ).rejects.toThrow('NOTIME');
    expect(await bench.redis.exists(...keys)).toBe(0);
  });

  it('reports that nobody listens', async () => {
    const bench = newBench();
    const keys = [bench.lock, bench.queue];

    expect(
      await runScript(bench.redis, bench.scripts.probe, keys, [`${bench.inboxPrefix}x`, 'probe']),
    ).toBe(0);
  });
});
