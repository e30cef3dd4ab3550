/** What this process keeps, when everything has been collected that can be. */
export interface Footprint {
  readonly heapBytes: number;
  readonly timers: number;
}

export function footprint(): Footprint {
  globalThis.gc?.();
  globalThis.gc?.();
  return {
    heapBytes: process.memoryUsage().heapUsed,
    timers: process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length,
  };
}
