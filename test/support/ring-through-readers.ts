import type { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import { makeGate } from './gate.js';
import { uniqueKey } from './unique-key.js';

/**
 * Each service has a call that reads a key, and another one that works under it. The last reader wants the key of a
 * writer, which wants the key that is read.
 * @param done after which the others stop reading
 * @returns what the writer, and then each reader, has returned, or why it has failed
 */
export async function ringThroughReaders(
  engines: readonly LockEngine[],
  done: Promise<void>,
): Promise<PromiseSettledResult<string>[]> {
  const [read, written] = [uniqueKey(), uniqueKey()];
  const [writing, reading] = [makeGate(), makeGate()];
  const [writer] = engines as [LockEngine];
  const calls = [
    writer.withLock(written, {}, async () => {
      writing.open();
      await reading.opened;
      return writer.withLock(read, { label: 'wants to write' }, () => 'wrote');
    }),
  ];
  await writing.opened;
  const readers = engines.flatMap((engine) => [engine, engine]);
  let inside = 0;
  for (const [i, engine] of readers.entries()) {
    const isLast = i === readers.length - 1;
    const call = engine.withLock(read, { mode: 'shared' }, async () => {
      if (++inside === readers.length) reading.open();
      await reading.opened;
      if (!isLast) await done;
      return isLast ? engine.withLock(written, { label: 'wants both' }, () => 'wrote') : 'read';
    });
    calls.push(call);
  }
  return Promise.allSettled(calls);
}
