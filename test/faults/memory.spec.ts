import { describe, expect, it } from '@jest/globals';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const WORKER = new URL('../fixtures/memory-worker.mjs', import.meta.url).pathname;
/** The smallest leak so far was 340 bytes a call; without one, noise is 100 at most. */
const NOISE = 250;

interface Answer {
  /** By kind of call: how many bytes of heap each call has left behind. */
  readonly left: Readonly<Record<string, number>>;
  readonly residue: unknown;
}

describe('the heap', () => {
  it('is the same after 100,000 calls, whatever their kind and whoever listens to their signal', async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [
      '--expose-gc',
      WORKER,
      '4000',
      '100000',
    ]);
    const { left, residue } = JSON.parse(stdout) as Answer;
    expect(Object.keys(left)).toHaveLength(12);
    expect(Object.entries(left).filter(([, bytes]) => bytes > NOISE)).toEqual([]);
    expect(residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  }, 180_000);
});
