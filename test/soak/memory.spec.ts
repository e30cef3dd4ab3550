import { describe, expect, it } from '@jest/globals';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { usePostgres } from '../support/databases.js';

const WORKER = new URL('./memory-worker.mjs', import.meta.url).pathname;
/** The smallest leak so far was 340 bytes a call; without one, noise is 170 at most. */
const NOISE = 250;
const CHAIN_WORKER = new URL('./chain-memory-worker.mjs', import.meta.url).pathname;
/** The smallest leak of a chain was 3 KB a call. */
const NOISE_OF_CHAIN = 1_500;

interface Answer {
  /** By kind of call: how many bytes of heap each call has left behind. */
  readonly left: Readonly<Record<string, number>>;
  readonly residue: unknown;
}

describe('the heap', () => {
  it('has the same size after 60,000 calls, whatever their kind and whoever listens to their signal', async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [
      '--expose-gc',
      WORKER,
      '4000',
      '60000',
    ]);
    const { left, residue } = JSON.parse(stdout) as Answer;
    expect(Object.keys(left)).toHaveLength(12);
    expect(Object.entries(left).filter(([, bytes]) => bytes > NOISE)).toEqual([]);
    expect(residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  }, 600_000);

  describe('in the middle of a chain of calls', () => {
    const postgres = usePostgres();

    it('has the same size after 1,000 calls, each scheduled inside the previous one', async () => {
      const args = ['--expose-gc', CHAIN_WORKER, postgres.url, '1000'];
      const { stdout } = await promisify(execFile)(process.execPath, args);
      const left = JSON.parse(stdout) as Readonly<Record<string, number>>;
      expect(Object.keys(left)).toHaveLength(7);
      expect(Object.entries(left).filter(([, bytes]) => bytes > NOISE_OF_CHAIN)).toEqual([]);
    }, 600_000);
  });
});
