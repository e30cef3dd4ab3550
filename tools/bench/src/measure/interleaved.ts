import type { Adapter } from '../adapters/adapter.js';

/** Rounds by the id of their adapter. */
export type Rounds<T> = ReadonlyMap<string, readonly T[]>;

/**
 * A short round of each adapter, then the next round, so that a machine that becomes slower does so for all of them.
 * Every second round goes through them backwards. The first one warms up and does not count.
 */
export async function interleaved<T>(
  adapters: readonly Adapter[],
  rounds: number,
  run: (adapter: Adapter, round: number) => Promise<T>,
): Promise<Rounds<T>> {
  const results = new Map<string, T[]>(adapters.map(({ id }) => [id, []]));
  for (let round = -1; round < rounds; round += 1) {
    for (const adapter of round % 2 === 0 ? adapters : adapters.toReversed()) {
      const result = await run(adapter, round);
      if (round >= 0) results.get(adapter.id)?.push(result);
    }
  }
  return results;
}
