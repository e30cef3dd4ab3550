import { setTimeout as sleep } from 'node:timers/promises';

export type Settled<T> =
  | { readonly state: 'fulfilled'; readonly value: T; readonly afterMs: number }
  | { readonly state: 'rejected'; readonly error: Error; readonly afterMs: number }
  | { readonly state: 'pending'; readonly afterMs: number };

/** What has become of a call after this time at most. */
export async function settled<T>(call: Promise<T>, withinMs: number): Promise<Settled<T>> {
  const from = performance.now();
  const afterMs = (): number => Math.round(performance.now() - from);
  return Promise.race([
    call.then(
      (value) => ({ state: 'fulfilled', value, afterMs: afterMs() }) as const,
      (error: Error) => ({ state: 'rejected', error, afterMs: afterMs() }) as const,
    ),
    sleep(withinMs).then(() => ({ state: 'pending', afterMs: afterMs() }) as const),
  ]);
}

export function inSeconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
