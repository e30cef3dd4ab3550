import { describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { lacksRights } from '../../../libs/nestjs-locked/src/redis/scripts/reply-error.js';
import { runScript } from '../../support/run-script.js';
import { granted, queued } from '../../support/script-replies.js';
import { useScripts } from '../../support/use-scripts.js';

const { newBench, heldBench, contendedBench, connectAs } = useScripts();

describe('without the right to publish', () => {
  /** A connection of a user with all rights except to publish. */
  const muted = (): Promise<Redis> => connectAs('+@all', 'resetchannels');

  it('release undoes its grant, and the waiter keeps its position [R6]', async () => {
    const { bench, token, fence, waiter, waiting, score } = await contendedBench();
    const mute = bench.as(await muted());

    expect(await mute.release(token, fence)).toEqual(['released']);

    expect(await bench.state()).toMatchObject({ lock: null, queue: [waiting, score] });
    expect(await waiter.heard()).toEqual([]);
    const fresh = waiter.token();
    granted(await bench.recheck(waiting, fresh, score), fresh);
  });

  it('release with a new token must check again, behind the waiter', async () => {
    const { bench, holder, token, fence, waiting, score } = await contendedBench();
    const mute = bench.as(await muted());
    const fresh = holder.token();

    const reply = queued(await mute.release(token, fence, fresh), fresh);

    expect(reply).toMatchObject({ pttl: 25, foreign: 0 });
    expect(await bench.state()).toMatchObject({
      lock: null,
      queue: [waiting, score, fresh, reply.score],
    });
  });

  it('acquire of a free lock leaves it free for the head', async () => {
    const { bench, waiting, score } = await contendedBench();
    const mute = bench.as(await muted());
    await bench.redis.del(bench.lock);
    const token = bench.deadToken();

    const reply = queued(await mute.acquire(token), token);
    expect(reply).toMatchObject({ pttl: 25, foreign: 0 });
    const after = await bench.state();
    expect(after).toMatchObject({ lock: null, queue: [waiting, score, token, reply.score] });

    expect(queued(await mute.acquire(token), token).score).toBe(reply.score);
    expect((await bench.state()).queue).toEqual(after.queue);
  });

  it('acquire of a held lock joins the queue without asking', async () => {
    const { bench, holder, token } = await heldBench();
    const mute = bench.as(await muted());
    const waiting = bench.deadToken();

    queued(await mute.acquire(waiting), waiting);

    expect(await bench.state()).toMatchObject({ lock: token });
    expect(await holder.heard()).toEqual([]);
  });

  it('leave undoes its grant, and the waiter keeps its position [R6]', async () => {
    const { bench, token, waiting, score } = await contendedBench();
    const mute = bench.as(await muted());

    expect(await mute.leave(token)).toEqual(['left']);

    expect(await bench.state()).toMatchObject({ lock: null, queue: [waiting, score] });
  });

  it('probe is refused, and leaves nothing', async () => {
    const bench = newBench();
    const keys = [bench.lock, bench.queue, bench.fence];
    const probe = runScript(await muted(), bench.scripts.probe, keys, [
      `${bench.inboxPrefix}x`,
      'probe',
    ]);

    const error: unknown = await probe.catch((reason: unknown) => reason);
    expect(String(error)).toMatch(/channel/);
    expect(lacksRights(error)).toBe(true);
    expect(await bench.redis.exists(...keys)).toBe(0);
  });
});
