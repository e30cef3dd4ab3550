/** Calls that wait for each other in a ring, of which some share a key with other readers. */
import { describe, expect, it } from '@jest/globals';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { HolderQuestions } from '../../libs/nestjs-locked/src/core/deadlocks/holder-questions.js';
import type { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import {
  LockDeadlockError,
  LockNotAcquiredError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { processIdOf } from '../../libs/nestjs-locked/src/core/store/lease-token.js';
import type { StoreMessage } from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { InMemoryLockStore } from '../../libs/nestjs-locked/src/testing/in-memory-lock-store.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import { FakeClock } from '../support/fake-clock.js';
import { makeGate } from '../support/gate.js';
import { INTERVAL_MS, outcomes, startEngines, WAIT } from '../support/start-engines.js';

const SHARED = { ...WAIT, mode: 'shared' } as const;

type Engines = readonly [LockEngine, ...LockEngine[]];

/** Readers of `read`, of which those with an inner key request it once all have begun. */
function startReaders(engines: Engines, inner: readonly (string | undefined)[]) {
  const [inside, done] = [makeGate(), makeGate()];
  let reading = 0;
  const calls = inner.map((key, i) => {
    const engine = engines[i % engines.length] as LockEngine;
    return engine.withLock(
      'read',
      SHARED,
      async () => {
        if (++reading === inner.length) inside.open();
        await inside.opened;
        if (key === undefined) await done.opened;
        else await engine.withLock(key, WAIT, () => {}, `Reader.inner${i}`);
        return `reader ${i}`;
      },
      `Reader.of${i}`,
    );
  });
  return { calls, done };
}

/** Has one key, and requests the other after a while. */
function startWriter(engine: LockEngine, has: string, wants: string, options = WAIT) {
  const entering = makeGate();
  const call = engine.withLock(has, WAIT, async () => {
    await entering.opened;
    return engine.withLock(wants, options, () => 'writer', 'Writer.inner');
  });
  return { call, entering };
}

describe.each([1, 2, 3])('readers in %s processes', (processes) => {
  it.each([0, 1, 2, 3])('close a ring through the one that waits, reader %s', async (waiting) => {
    const { clock, engines, deadlocks } = startEngines(processes);
    const { call, entering } = startWriter(engines[0] as LockEngine, 'first', 'read');
    await clock.advance(1);
    const inner = Array.from({ length: 4 }, (_, i) => (i === waiting ? 'first' : undefined));
    const { calls, done } = startReaders(engines as unknown as Engines, inner);
    await clock.advance(10);
    entering.open();
    const ended = outcomes([call, ...calls]);
    await clock.advance(2 * INTERVAL_MS);
    done.open();
    await clock.advance(1);
    const results = await ended;
    const errors = results.filter((it) => it instanceof Error) as LockDeadlockError[];
    expect(errors).toEqual([expect.any(LockDeadlockError)]);
    expect(errors[0]?.ring.map(({ label }) => label).sort()).toEqual([
      `Reader.inner${waiting}`,
      'Writer.inner',
    ]);
    expect(deadlocks()).toHaveLength(1);
    for (const engine of engines)
      expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });

  it('that merely wait are no deadlock, nor is the writer behind them', async () => {
    const { clock, engines, locks, deadlocks } = startEngines(processes);
    const [engine] = engines as unknown as Engines;
    const gate = makeGate();
    const working = engine.withLock('work', WAIT, () => gate.opened);
    const { call, entering } = startWriter(engine, 'first', 'read');
    await clock.advance(1);
    const { calls, done } = startReaders(engines as unknown as Engines, [
      'work',
      'work',
      undefined,
    ]);
    await clock.advance(10);
    entering.open();
    await clock.advance(5 * INTERVAL_MS);
    expect(locks.sent.some((it) => it.kind === 'question' && it.key === 'read')).toBe(true);
    expect(deadlocks()).toEqual([]);
    gate.open();
    done.open();
    const ended = outcomes([call, ...calls]);
    await clock.advance(1_000);
    await working;
    expect(await ended).not.toContainEqual(expect.any(Error));
  });

  it('close a ring through two keys that several read', async () => {
    const { clock, engines } = startEngines(processes);
    const both = makeGate();
    let inside = 0;
    const readsAndWrites = (i: number, reads: string, writes: string, worksOnly: boolean) => {
      const engine = engines[i % processes] as LockEngine;
      return engine.withLock(reads, SHARED, async () => {
        if (++inside === 4) both.open();
        await both.opened;
        return worksOnly ? 'worked' : engine.withLock(writes, WAIT, () => 'wrote');
      });
    };
    const ended = outcomes([
      readsAndWrites(0, 'a', 'b', true),
      readsAndWrites(1, 'a', 'b', false),
      readsAndWrites(2, 'b', 'a', true),
      readsAndWrites(0, 'b', 'a', false),
    ]);
    await clock.advance(2 * INTERVAL_MS);
    expect(
      (await ended).map((it) => (it instanceof LockDeadlockError ? 'ended' : it)).sort(),
    ).toEqual(['ended', 'worked', 'worked', 'wrote']);
  });
});

describe('a reader behind a writer that waits', () => {
  /** One reads, and wants what the other has; the other wants to read, too, which the writer prevents. */
  async function startBehind(options = WAIT) {
    const started = startEngines(3);
    const [one, other, third] = started.engines as [LockEngine, LockEngine, LockEngine];
    const { clock } = started;
    const [gate, later] = [makeGate(), makeGate()];
    const reader = one.withLock('read', SHARED, async () => {
      await gate.opened;
      return one.withLock('first', WAIT, () => 'reader', 'Reader.inner');
    });
    const behind = other.withLock('first', WAIT, async () => {
      await later.opened;
      return other.withLock('read', SHARED, () => 'behind', 'Behind.inner');
    });
    await clock.advance(1);
    const writer = third.withLock('read', options, () => 'writer');
    await clock.advance(1);
    later.open();
    await clock.advance(1);
    gate.open();
    return { ...started, ended: outcomes([reader, behind, writer]) };
  }

  it('waits for the readers that have the key, as the writer does', async () => {
    const { clock, ended } = await startBehind();
    await clock.advance(2 * INTERVAL_MS);
    expect(await ended).toEqual([expect.any(LockDeadlockError), 'behind', 'writer']);
  });

  it('waits for nobody once the writer has given up', async () => {
    const { clock, ended, deadlocks } = await startBehind({ waitMs: INTERVAL_MS - 10 });
    await clock.advance(3 * INTERVAL_MS);
    expect(await ended).toEqual(['reader', 'behind', expect.any(LockNotAcquiredError)]);
    expect(deadlocks()).toEqual([]);
  });

  it('is in no ring between the end of the writer and its own grant', async () => {
    const aborted = new AbortController();
    const started = await startBehind({ ...WAIT, signal: aborted.signal });
    const { clock, ended, locks, deadlocks } = started;
    let answers = 0;
    const late: StoreMessage[] = [];
    locks.isLost = (message) => {
      // Both have seen the ring. When the younger one asks again, the other is let in, but has not heard of it.
      if (message.kind === 'answer' && ++answers === 4) aborted.abort();
      if (message.kind !== 'grant') return false;
      late.push(message);
      return true;
    };
    await clock.advance(INTERVAL_MS + 100);
    await nextTurn();
    expect(deadlocks()).toEqual([]);
    expect(answers).toBeGreaterThan(4);
    expect(late.map((it) => it.kind === 'grant' && it.key)).toContain('read');
    locks.isLost = () => false;
    for (const message of late) locks.send(started.stores[1]?.processId, message);
    await clock.advance(1);
    expect((await ended).slice(0, 2)).toEqual(['reader', 'behind']);
  });

  it('waits for nobody if the writer has died', async () => {
    const { clock, ended, deadlocks, locks, stores } = await startBehind();
    const listens = locks.listens.bind(locks);
    const dead = stores[2]?.processId;
    locks.listens = (token) => processIdOf(token) !== dead && listens(token);
    await clock.advance(2 * INTERVAL_MS);
    expect(deadlocks()).toEqual([]);
    void ended;
  });
});

describe('a reader of many in a process', () => {
  it('is found in the ring, although others of its lease wait, too', async () => {
    const { clock, engines } = startEngines(2);
    const [one, other] = engines as [LockEngine, LockEngine];
    const gate = makeGate();
    const working = other.withLock('work', WAIT, () => gate.opened);
    const { call, entering } = startWriter(other, 'first', 'read');
    await clock.advance(1);
    const inner = Array.from({ length: 40 }, (_, i) => (i === 39 ? 'first' : 'work'));
    const { calls } = startReaders([one], inner);
    await clock.advance(1);
    entering.open();
    const ended = outcomes([call, ...calls]);
    await clock.advance(2 * INTERVAL_MS);
    gate.open();
    await clock.advance(1_000);
    await working;
    const errors = (await ended).filter((it) => it instanceof Error);
    expect(errors).toEqual([expect.any(LockDeadlockError)]);
  });

  it('is in no ring if its time is over, although another reader keeps the lease', async () => {
    const { clock, engines, deadlocks } = startEngines(2);
    const [one, other] = engines as [LockEngine, LockEngine];
    const { call, entering } = startWriter(other, 'first', 'read');
    const done = makeGate();
    await clock.advance(1);
    const lost = one.withLock('read', { ...SHARED, maxHoldMs: 3_000 }, () =>
      one.withLock('first', WAIT, () => 'late'),
    );
    const sound = one.withLock('read', SHARED, () => done.opened);
    await clock.advance(1);
    entering.open();
    const ended = outcomes([call, lost]);
    await clock.advance(3 * INTERVAL_MS);
    expect(deadlocks()).toEqual([]);
    done.open();
    await sound;
    await clock.advance(30_000);
    expect(deadlocks()).toEqual([]);
    expect((await ended)[0]).toBe('writer');
  });
});

describe('a question to several readers', () => {
  it('is over when all who hear it have answered, and after a second at the latest', async () => {
    const clock = new FakeClock();
    const { inspector } = new InMemoryLockStore(new InMemoryLocks(clock), 30_000);
    const isHeard = [true, true, false];
    inspector.ask = async (_, id) =>
      isHeard.map((heard, i) => {
        return { token: `token ${i}`, id: `${id}.${i + 1}`, isHeard: heard, keepsOut: true };
      });
    const questions = new HolderQuestions(inspector, clock, () => '');
    const answered = async (id: string, texts: readonly number[]) => {
      const began = clock.now();
      const asking = questions
        .ask('read')
        .then((holders) => [
          clock.now() - began,
          ...holders.map(({ answer }) => answer !== undefined),
        ]);
      for (const i of texts) {
        await clock.advance(300);
        questions.answer({ kind: 'answer', id: `${id}.${i}`, text: '' });
      }
      await clock.advance(1_000);
      return asking;
    };
    expect(await answered('1', [2, 1])).toEqual([600, true, true, false]);
    expect(await answered('2', [2])).toEqual([1_000, false, true, false]);
  });
});
