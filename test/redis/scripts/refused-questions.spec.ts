import { describe, expect, it } from '@jest/globals';
import { ACCEPT_MS } from '../../support/script-bench.js';
import { expectLife, queued } from '../../support/script-replies.js';
import { useScripts } from '../../support/use-scripts.js';

const { contendedBench, heldBench, connectAs } = useScripts();

it('a user who may not remove a waiter from the queue leaves it the lock that was announced to it [R6]', async () => {
  const { bench, token, fence, waiter, waiting } = await contendedBench();
  const other = bench.as(await connectAs('&*', '+@all', '-zrem'));
  await expect(other.release(token, fence)).rejects.toThrow(
    /can't run|NOPERM|no permissions to run/,
  );
  expect(await waiter.heard()).toEqual([expect.stringMatching(`^g ${waiting} `)]);
  expect((await bench.state()).lock).toBe(waiting);
});

describe('without the right to ask who listens', () => {
  const rights = ['&*', '+@all', '-pubsub'];

  it('release hands the lock to the first waiter', async () => {
    const { bench, token, fence, waiter, waiting } = await contendedBench();
    const blind = bench.as(await connectAs(...rights));

    expect(await blind.release(token, fence)).toEqual(['released']);

    expect(await bench.state()).toMatchObject({ lock: waiting, queue: [] });
    expect(await waiter.heard()).toEqual([expect.stringMatching(`^g ${waiting} `)]);
  });

  it('release with a new token goes behind the waiter', async () => {
    const { bench, holder, token, fence, waiting } = await contendedBench();
    const blind = bench.as(await connectAs(...rights));
    const fresh = holder.token();

    queued(await blind.release(token, fence, fresh), fresh);

    expect(await bench.state()).toMatchObject({ lock: waiting });
  });

  it('a dead waiter counts as alive: it has the lock for its acceptance lease, once [R3]', async () => {
    const { bench, token, fence } = await heldBench();
    const dead = bench.deadToken();
    queued(await bench.acquire(dead), dead);
    const blind = bench.as(await connectAs(...rights));

    expect(await blind.release(token, fence)).toEqual(['released']);

    expect(await bench.state()).toMatchObject({ lock: dead, queue: [] });
    expectLife(await bench.lockLifeMs(), ACCEPT_MS);
  });

  it('acquire of a free lock waits behind the head', async () => {
    const { bench, waiting } = await contendedBench();
    await bench.redis.del(bench.lock);
    const blind = bench.as(await connectAs(...rights));
    const token = bench.deadToken();

    queued(await blind.acquire(token), token);

    expect(await bench.state()).toMatchObject({ lock: waiting });
  });
});

describe('without the right to read the queue', () => {
  const rights = ['&*', '+@all', '-zrange'];

  it('release leaves the lock free', async () => {
    const { bench, token, fence, waiting, score } = await contendedBench();
    const blind = bench.as(await connectAs(...rights));

    expect(await blind.release(token, fence)).toEqual(['released']);

    expect(await bench.state()).toMatchObject({ lock: null, queue: [waiting, score] });
  });

  it('release with a new token leaves the lock free as well, and is refused', async () => {
    const { bench, holder, token, fence, waiting, score } = await contendedBench();
    const blind = bench.as(await connectAs(...rights));

    await expect(blind.release(token, fence, holder.token())).rejects.toThrow(
      /permission|can't run/,
    );

    expect(await bench.state()).toMatchObject({ lock: null, queue: [waiting, score] });
  });
});
