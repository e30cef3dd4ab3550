import { beforeEach, describe, expect, it } from '@jest/globals';
import { ReadableStream } from 'node:stream/web';
import { setImmediate as immediate } from 'node:timers/promises';
import { Locked } from '../../libs/nestjs-locked/src/nest/decorator/locked.decorator.js';
import { RecordingLocks } from './recording-locks.js';

class Reports {
  @Locked('k')
  async make(stream: ReadableStream): Promise<ReadableStream> {
    return Promise.resolve(stream);
  }
}

let locks: RecordingLocks;
let reports: Reports;
beforeEach(() => {
  locks = new RecordingLocks();
  reports = locks.give(new Reports());
});

async function released(): Promise<void> {
  while (!locks.events.includes('unlock k')) await immediate();
}

/** Three bytes, and then the end. */
function bytes(): ReadableStream {
  let left = [Uint8Array.of(1, 2, 3)];
  return new ReadableStream({
    type: 'bytes',
    pull(controller) {
      const [chunk] = left;
      left = [];
      if (chunk !== undefined) {
        controller.enqueue(chunk);
        return;
      }
      controller.close();
      controller.byobRequest?.respond(0);
    },
  });
}

describe('a Promise of a web stream', () => {
  it('lets the reader of a byte stream pass its own buffer', async () => {
    const reader = (await reports.make(bytes())).getReader({ mode: 'byob' });
    expect(locks.events).toEqual(['lock k']);
    const first = await reader.read(new Uint8Array(2));
    const second = await reader.read(new Uint8Array(2));
    expect([first.value, second.value].map((chunk) => [...(chunk ?? [])])).toEqual([[1, 2], [3]]);
    await expect(reader.read(new Uint8Array(2))).resolves.toMatchObject({ done: true });
    await released();
  });

  it('lets a byte stream be read without a buffer, and lets it fail', async () => {
    const chunks: unknown[] = [];
    for await (const chunk of await reports.make(bytes())) chunks.push(chunk);
    expect(chunks).toEqual([Uint8Array.of(1, 2, 3)]);
    await released();
    const failing = new ReadableStream({
      type: 'bytes',
      pull: () => Promise.reject(new Error('disk')),
    });
    const reader = (await reports.make(failing)).getReader({ mode: 'byob' });
    await expect(reader.read(new Uint8Array(2))).rejects.toThrow('disk');
    expect(locks.events).toEqual(['lock k', 'unlock k', 'lock k', 'unlock k']);
  });

  it.each([undefined, 'bytes' as const])(
    'releases the lock when a stream without data is cancelled (type %s)',
    async (type) => {
      const reasons: unknown[] = [];
      const cancel = (reason: unknown): void => void reasons.push(reason);
      const source =
        type === undefined ? new ReadableStream({ cancel }) : new ReadableStream({ type, cancel });
      const reader = (await reports.make(source)).getReader();
      const next = reader.read();
      await immediate();
      await reader.cancel('left');
      await expect(next).resolves.toEqual({ value: undefined, done: true });
      await released();
      expect(reasons).toEqual(['left']);
    },
  );
});
