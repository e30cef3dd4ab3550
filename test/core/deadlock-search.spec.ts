/** Calls that wait for each other in a ring are found, and the youngest wait ends. */
import { describe, expect, it } from '@jest/globals';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { collectedWaits } from '../../libs/nestjs-locked/src/core/deadlocks/collected-waits.js';
import {
  type AskedHolder,
  HolderQuestions,
} from '../../libs/nestjs-locked/src/core/deadlocks/holder-questions.js';
import { waitsInRings } from '../../libs/nestjs-locked/src/core/deadlocks/rings.js';
import type { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import {
  LockDeadlockError,
  LockNotAcquiredError,
  LockStoreError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { LockWait } from '../../libs/nestjs-locked/src/core/lock-info.js';
import { processIdOf } from '../../libs/nestjs-locked/src/core/store/lease-token.js';
import { leaseIdOf } from '../../libs/nestjs-locked/src/core/store/shared-value.js';
import { InMemoryLockStore } from '../../libs/nestjs-locked/src/testing/in-memory-lock-store.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import { FakeClock } from '../support/fake-clock.js';
import { type Gate, makeGate } from '../support/gate.js';
import { INTERVAL_MS, outcomes, startEngines, WAIT } from '../support/start-engines.js';

/** A call that holds one key and then requests the next one. The first key of each call is held before any is. */
function ring(engines: readonly LockEngine[], keys: readonly string[], options = WAIT) {
  const allHold = makeGate();
  let holding = 0;
  return keys.map(async (key, i) => {
    const engine = engines[i % engines.length] as LockEngine;
    const next = keys[(i + 1) % keys.length] as string;
    return engine.withLock(
      key,
      options,
      async () => {
        holding++;
        if (holding === keys.length) allHold.open();
        await allHold.opened;
        return engine.withLock(next, options, () => `call ${i}`, `Inner.of${i}`);
      },
      `Outer.of${i}`,
    );
  });
}

describe.each([1, 2, 3])('calls of %s processes that wait for each other', (processes) => {
  it.each([2, 3, 5])('end with one error within two intervals, in a ring of %s', async (count) => {
    const { clock, engines, deadlocks } = startEngines(processes);
    const keys = Array.from({ length: count }, (_, i) => `key:${i}`);
    const calls = outcomes(ring(engines, keys));
    await clock.advance(2 * INTERVAL_MS);
    const ended = await calls;
    const errors = ended.filter((it) => it instanceof LockDeadlockError);
    expect(errors).toHaveLength(1);
    expect(ended.filter((it) => typeof it === 'string')).toHaveLength(count - 1);
    expect(deadlocks()).toHaveLength(1);
    const [error] = errors as [LockDeadlockError];
    expect(error.ring).toHaveLength(count);
    expect(error.key).toBe(error.ring[0]?.key);
    for (const [i, wait] of error.ring.entries()) {
      expect(error.ring[(i + 1) % count]?.holds).toEqual([wait.key]);
      expect(error.message).toContain(`'${wait.label}'`);
    }
    for (const engine of engines) {
      expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
    }
  });
});

describe('a deadlock', () => {
  it('ends the youngest of its waits, and no other', async () => {
    const { clock, engine, deadlocks } = startEngines();
    const [first, second] = [makeGate(), makeGate()];
    const call = (own: string, other: string, gate: Gate) =>
      engine.withLock(
        own,
        WAIT,
        async () => {
          await gate.opened;
          return engine.withLock(other, WAIT, () => own, `wants ${other}`);
        },
        `has ${own}`,
      );
    const calls = outcomes([call('a', 'b', first), call('b', 'a', second)]);
    await clock.advance(1);
    second.open();
    await clock.advance(1_000);
    first.open();
    await clock.advance(2 * INTERVAL_MS);
    expect(await calls).toEqual([
      expect.objectContaining({
        code: 'LOCK_DEADLOCK',
        key: 'b',
        message: expect.stringContaining('requested by wants b') as unknown,
      }),
      'b',
    ]);
    expect(deadlocks()).toMatchObject([{ key: 'b', label: 'wants b' }]);
  });

  it('is one too if a call with several keys closes the ring', async () => {
    const { clock, engine } = startEngines();
    const gate = makeGate();
    const nested = engine.withLock('b', WAIT, async () => {
      await gate.opened;
      return engine.withLock('a', WAIT, () => 'nested');
    });
    await clock.advance(1);
    const several = engine.withLock(['a', 'b'], WAIT, () => 'several');
    await clock.advance(1); // it has a, and waits for b
    gate.open();
    const ended = outcomes([nested, several]);
    await clock.advance(2 * INTERVAL_MS);
    expect(await ended).toEqual([expect.any(LockDeadlockError), 'several']);
  });

  it('of a call with itself says so', async () => {
    const { clock, engine } = startEngines();
    const call = engine.withLock('a', WAIT, () =>
      engine.withLock('a', { ...WAIT, reentrant: false }, () => 'inner'),
    );
    const ended = outcomes([call]);
    await clock.advance(2 * INTERVAL_MS);
    const [error] = await ended;
    expect(error).toBeInstanceOf(LockDeadlockError);
    expect((error as Error).message).toContain('the call holds it itself');
    expect((error as Error).message).not.toContain('youngest');
  });

  it('is found by branches of a call that holds the key', async () => {
    const { clock, engine } = startEngines();
    const [gate, later, done] = [makeGate(), makeGate(), makeGate()];
    const working = engine.withLock('c', WAIT, () => done.opened);
    const branches = engine.withLock('a', WAIT, async () => {
      await gate.opened;
      return (
        await Promise.all([
          engine.withLock('c', WAIT, () => 'one branch'),
          engine.withLock('b', WAIT, () => 'the other'),
        ])
      ).join();
    });
    const other = engine.withLock('b', WAIT, async () => {
      gate.open();
      await later.opened;
      return engine.withLock('a', WAIT, () => 'other');
    });
    const ended = outcomes([branches, other]);
    await clock.advance(10);
    later.open();
    await clock.advance(3 * INTERVAL_MS);
    done.open();
    await working;
    expect(await ended).toEqual(['one branch,the other', expect.any(LockDeadlockError)]);
  });

  it('is found behind a crowd whose questions are not answered', async () => {
    const { clock, engine, locks } = startEngines();
    locks.isLost = (message) => message.kind === 'question' && message.key === 'b';
    const gate = makeGate();
    const working = engine.withLock('b', WAIT, () => gate.opened);
    const crowd = Array.from({ length: 40 }, (_, i) =>
      engine.withLock(`a:${i}`, WAIT, () => engine.withLock('b', WAIT, () => i)),
    );
    const ended = outcomes(ring([engine], ['y', 'z']));
    await clock.advance(2 * INTERVAL_MS);
    expect(await ended).toContainEqual(expect.any(LockDeadlockError));
    gate.open();
    await Promise.all([working, ...crowd]);
  });

  it('does not lead the search of another wait in circles', async () => {
    const { clock, engines, locks, stores } = startEngines(2);
    const [inside, outside] = engines as [LockEngine, LockEngine];
    const calls = ring([inside], ['a', 'b'], { waitMs: 30_000 });
    await clock.advance(1);
    const bystander = outside.withLock('0', WAIT, () => outside.withLock('a', WAIT, () => 'last'));
    const ended = outcomes([...calls, bystander]);
    locks.isLost = (it) => it.kind === 'question' && it.from === stores[0]?.processId;
    await clock.advance(2.5 * INTERVAL_MS);
    const asked = locks.sent.filter((it) => it.kind === 'question');
    expect(asked.length).toBeGreaterThan(4);
    expect(asked.length).toBeLessThan(20);
    await clock.advance(30_000);
    expect((await ended).at(-1)).toBe('last');
  });

  it('ends no wait that is not part of the ring', async () => {
    const { clock, engine } = startEngines();
    const outside = ring([engine], ['a', 'b']);
    await clock.advance(1);
    const bystander = engine.withLock('x', WAIT, () => engine.withLock('a', WAIT, () => 'got it'));
    const ended = outcomes([...outside, bystander]);
    await clock.advance(3 * INTERVAL_MS);
    expect((await ended).at(-1)).toBe('got it');
  });
});

describe('no deadlock', () => {
  it('is seen in a long wait for a call that works', async () => {
    const { clock, engine, deadlocks, locks } = startEngines();
    const gate = makeGate();
    const working = engine.withLock('b', WAIT, () => gate.opened);
    const waiting = engine.withLock('a', WAIT, () => engine.withLock('b', WAIT, () => 'its turn'));
    await clock.advance(4 * INTERVAL_MS);
    expect(locks.sent.filter(({ kind }) => kind === 'question').length).toBeGreaterThanOrEqual(3);
    gate.open();
    await working;
    expect(await waiting).toBe('its turn');
    expect(deadlocks()).toEqual([]);
  });

  it('is looked for by a call that holds nothing, does not wait long, or tries once', async () => {
    const { clock, engine, locks } = startEngines();
    const gate = makeGate();
    const working = engine.withLock('b', WAIT, () => gate.opened);
    const calls = outcomes([
      engine.withLock('b', WAIT, () => 'plain'),
      engine.withLock('a', WAIT, () => engine.withLock('b', { waitMs: 5_000 }, () => 'short')),
    ]);
    await clock.advance(4 * INTERVAL_MS);
    expect(locks.sent.filter(({ kind }) => kind === 'question')).toEqual([]);
    gate.open();
    await working;
    expect(await calls).toEqual(['plain', expect.any(LockNotAcquiredError)]);
  });

  it('is concluded from messages that are lost, or that nobody can have sent', async () => {
    const { clock, engines, stores, locks, deadlocks } = startEngines(2);
    locks.isLost = ({ kind }) => kind === 'question';
    const lost = outcomes(ring(engines, ['a', 'b'], { waitMs: 20_000 }));
    const ofNobody = { process: 'f', host: 'h', pid: 1, waits: [1, { id: 1 }] };
    const forged = ['{}', 'null', '[]', '{', JSON.stringify(ofNobody)];
    for (let id = 0; id < 200; id++) {
      for (const { processId } of stores)
        for (const text of forged) locks.send(processId, { kind: 'answer', id: String(id), text });
      await clock.advance(100);
    }
    await clock.advance(INTERVAL_MS);
    expect(deadlocks()).toEqual([]);
    expect(await lost).toContainEqual(expect.any(LockNotAcquiredError));
  });

  it('is told of if the wait has just ended by itself', async () => {
    const { clock, engine, locks, deadlocks } = startEngines();
    const aborted = new AbortController();
    const gate = makeGate();
    const older = engine.withLock('b', WAIT, async () => {
      await gate.opened;
      return engine.withLock('a', WAIT, () => 'went on');
    });
    const younger = engine.withLock('a', WAIT, async () => {
      gate.open();
      await nextTurn();
      return engine.withLock('b', { ...WAIT, signal: aborted.signal }, () => 'never');
    });
    const ended = outcomes([older, younger]);
    let answers = 0;
    locks.isLost = ({ kind }) => {
      // The last one that the younger wait needs: both have asked twice, and it has asked again.
      if (kind === 'answer' && ++answers === 6) aborted.abort();
      return false;
    };
    await clock.advance(10);
    await nextTurn();
    await clock.advance(1.5 * INTERVAL_MS);
    expect(answers).toBe(6);
    expect(await ended).toEqual(['went on', expect.objectContaining({ code: 'LOCK_ABORTED' })]);
    expect(deadlocks()).toEqual([]);
  });

  it('is looked for again after the store has failed, and the failure rejects nothing', async () => {
    const { clock, engine, stores } = startEngines();
    const { inspector } = stores[0] as InMemoryLockStore;
    let asked = 0;
    inspector.ask = () => {
      asked++;
      return Promise.reject(new LockStoreError('away'));
    };
    const gate = makeGate();
    const working = engine.withLock('b', WAIT, () => gate.opened);
    const waiting = engine.withLock('a', WAIT, () => engine.withLock('b', WAIT, () => 'its turn'));
    const rejections: unknown[] = [];
    const onRejection = (reason: unknown): void => void rejections.push(reason);
    process.on('unhandledRejection', onRejection);
    await clock.advance(2.5 * INTERVAL_MS);
    await nextTurn();
    process.off('unhandledRejection', onRejection);
    expect(asked).toBe(2);
    expect(rejections).toEqual([]);
    gate.open();
    await working;
    expect(await waiting).toBe('its turn');
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });

  it.each(['ended', 'gone on without it'])(
    'is concluded if a call has given up between the two rounds, and has %s',
    async (then) => {
      const { clock, engines, locks, deadlocks } = startEngines(2);
      const [mine, others] = engines as [LockEngine, LockEngine];
      const aborted = new AbortController();
      const [both, later, done] = [makeGate(), makeGate(), makeGate()];
      const older = others.withLock('b', WAIT, async () => {
        await both.opened;
        const { signal } = aborted;
        await others.withLock('a', { ...WAIT, signal }, () => 'never').catch(() => {});
        if (then !== 'ended') await done.opened;
        return 'went on';
      });
      const younger = mine.withLock('a', WAIT, async () => {
        both.open();
        await later.opened;
        return mine.withLock('b', WAIT, () => 'got it');
      });
      const ended = outcomes([older, younger]);
      await clock.advance(10);
      later.open();
      let answers = 0;
      locks.isLost = ({ kind }) => {
        // Each of the two has asked twice, so the younger one has seen the ring, and asks again.
        if (kind === 'answer' && ++answers === 4) aborted.abort();
        return false;
      };
      await clock.advance(1.5 * INTERVAL_MS);
      expect(answers).toBe(6);
      done.open();
      await clock.advance(1);
      expect(await ended).toEqual(['went on', 'got it']);
      expect(deadlocks()).toEqual([]);
    },
  );

  it('is looked for by a crowd at once', async () => {
    const { clock, engine, locks } = startEngines();
    const gate = makeGate();
    const working = engine.withLock('b', WAIT, () => gate.opened);
    const crowd = Array.from({ length: 100 }, (_, i) =>
      engine.withLock(`a:${i}`, WAIT, () => engine.withLock('b', WAIT, () => i)),
    );
    let [asked, most] = [0, 0];
    locks.isLost = ({ kind }) => {
      if (kind === 'question') most = Math.max(most, ++asked);
      if (kind === 'answer') asked--;
      return kind === 'question';
    };
    await clock.advance(INTERVAL_MS + 1);
    expect(most).toBe(16);
    gate.open();
    await working;
    await Promise.all(crowd);
  });

  it('is looked for by a flood, of which only a thousand are answered at a time', async () => {
    const clock = new FakeClock();
    const store = new InMemoryLockStore(new InMemoryLocks(clock), 30_000);
    const gate = makeGate();
    let answered = 0;
    store.answer = () => {
      answered++;
      return gate.opened;
    };
    const questions = new HolderQuestions(store, clock, () => '');
    const { processId: from } = store;
    const flood = (): void => {
      for (let id = 0; id < 3_000; id++)
        questions.question({ kind: 'question', key: 'a', token: 'none', from, id: String(id) });
    };
    flood();
    expect(answered).toBe(1_000);
    gate.open();
    await clock.advance(1);
    flood();
    expect(answered).toBe(2_000);
  });

  it('is looked for again if no answer has come, until the service closes', async () => {
    const { clock, engine, locks } = startEngines();
    locks.isLost = ({ kind }) => kind === 'answer';
    const gate = makeGate();
    const working = engine.withLock('b', WAIT, () => gate.opened);
    const waiting = outcomes([
      engine.withLock('a', WAIT, () => engine.withLock('b', WAIT, () => '')),
    ]);
    const asked = () => locks.sent.filter(({ kind }) => kind === 'question').length;
    await clock.advance(INTERVAL_MS);
    expect(asked()).toBe(1);
    await clock.advance(INTERVAL_MS + 1_100);
    expect(asked()).toBe(2);
    const closed = engine.close(100);
    await clock.advance(100);
    await closed;
    expect(clock.timers).toBe(0);
    gate.open();
    await Promise.all([working, waiting]);
  });
});

describe('one look at all waits', () => {
  const wait = (key: string, ...holds: string[]): LockWait => {
    return { processId: '', host: '', pid: 1, id: key, label: key, since: new Date(), key, holds };
  };

  it('tells rings from those who wait for one', () => {
    const ring = [wait('b', 'a'), wait('c', 'b'), wait('a', 'c', 'x')];
    const self = wait('y', 'y');
    const others = [wait('a', 'd'), wait('d', 'e'), wait('z', 'f')];
    expect(waitsInRings([...others, ...ring, self])).toEqual(new Set([...ring, self]));
  });
});

describe('waits()', () => {
  it('shows who waits for whom, in all processes', async () => {
    const { clock, engines } = startEngines(2);
    const [one, other] = engines as [LockEngine, LockEngine];
    const gate = makeGate();
    const working = one.withLock('c', WAIT, () => gate.opened, 'Third.works');
    const began = clock.wallNow();
    const middle = other.withLock('b', WAIT, () =>
      other.withLock('c', WAIT, () => 0, 'Second.inner'),
    );
    const first = one.withLock('a', WAIT, () => one.withLock('b', WAIT, () => 0, 'First.inner'));
    await clock.advance(10);
    const shown = await one.waits('*');
    expect(shown).toEqual([
      expect.objectContaining({ key: 'c', label: 'Second.inner', holds: ['b'], pid: process.pid }),
    ]);
    expect(shown[0]?.since.getTime()).toBeGreaterThanOrEqual(began);
    gate.open();
    await Promise.all([working, middle, first]);
    expect(await other.waits('*')).toEqual([]);
  });

  it('shows only what a wait that was left behind still holds', async () => {
    const { clock, engine } = startEngines();
    const [gate, inner] = [makeGate(), makeGate()];
    const working = engine.withLock('c', WAIT, () => gate.opened);
    let left: Promise<unknown> | undefined;
    const outer = engine.withLock('a', WAIT, () =>
      engine
        .withLock('b', WAIT, async () => {
          left = engine.withLock('c', WAIT, () => 0);
          await inner.opened;
        })
        .then(() => gate.opened),
    );
    const behind = engine.withLock('a', WAIT, () => 0);
    await clock.advance(10);
    const held = async () => (await engine.waits('*')).map(({ holds }) => holds);
    expect(await held()).toEqual([['a', 'b']]);
    inner.open();
    await clock.advance(10);
    expect(await held()).toEqual([['a']]);
    gate.open();
    await Promise.all([working, outer, behind, left]);
  });

  it('asks a process that is silent about sixteen locks at most', async () => {
    const { clock, engines, locks } = startEngines(2);
    const [one, other] = engines as [LockEngine, LockEngine];
    const gate = makeGate();
    const keys = Array.from({ length: 40 }, (_, i) => `key:${i}`);
    const calls = keys.flatMap((key) => [
      one.withLock(key, WAIT, () => gate.opened),
      other.withLock(key, WAIT, () => gate.opened),
    ]);
    await clock.advance(10);
    const asked = async (): Promise<number> => {
      locks.sent.length = 0;
      const asking = other.waits('*');
      await clock.advance(5_000);
      expect(await asking).toEqual([]);
      return locks.sent.filter(({ kind }) => kind === 'question').length;
    };
    expect(await asked()).toBe(40);
    locks.isLost = ({ kind }) => kind === 'question';
    expect(await asked()).toBe(16);
    gate.open();
    await Promise.all(calls);
  });

  it('fails with the store, without a rejection that nobody awaits', async () => {
    const { clock, engines, stores } = startEngines(2);
    const [one, other] = engines as [LockEngine, LockEngine];
    const gate = makeGate();
    const calls = ['a', 'b'].flatMap((key) => [
      one.withLock(key, WAIT, () => gate.opened),
      other.withLock(key, WAIT, () => gate.opened),
    ]);
    await clock.advance(10);
    const { inspector } = stores[1] as InMemoryLockStore;
    const inspect = inspector.inspect.bind(inspector);
    inspector.inspect = async (key) => {
      await nextTurn();
      return inspect(key);
    };
    inspector.ask = () => Promise.reject(new LockStoreError('away'));
    const rejections: unknown[] = [];
    const onRejection = (reason: unknown): void => void rejections.push(reason);
    process.on('unhandledRejection', onRejection);
    await expect(other.waits('*')).rejects.toThrow('away');
    process.off('unhandledRejection', onRejection);
    expect(rejections).toEqual([]);
    gate.open();
    await Promise.all(calls);
  });
});

describe('what the processes say of their locks', () => {
  const lock = (key: string, token: string) => {
    const holder = { processId: processIdOf(token) as string, host: 'h', pid: 1, label: 'First' };
    return {
      key,
      leaseId: leaseIdOf(token),
      state: 'held' as const,
      mode: 'exclusive' as const,
      holder,
      holders: [holder],
      since: new Date(1),
      remainingMs: 1,
      fencingToken: undefined,
      waiters: 1,
      queue: [],
    };
  };
  const call = { label: 'Now', since: new Date(2), fencingToken: 7, traceParent: undefined };
  const tokens = ['a', 'b', 'c', 'd'].map((digit) => `${digit.repeat(32)}:1:First`);

  it('is shown of the lease that was asked about, if it was said', async () => {
    const locks = tokens.map((token, i) => lock(`k:${i}`, token));
    const said: Record<string, AskedHolder[]> = {
      'k:0': [{ token: tokens[0] as string, keepsOut: true, answer: { call, waits: [] } }],
      'k:1': [{ token: 'another', keepsOut: true, answer: { call, waits: [] } }],
      'k:2': [{ token: tokens[2] as string, keepsOut: true, answer: { call: null, waits: [] } }],
      'k:3': [{ token: tokens[3] as string, keepsOut: true, answer: undefined }],
    };
    const ask = async (key: string): Promise<AskedHolder[]> => said[key] ?? [];
    const { present, silent } = await collectedWaits({ ask }, locks);
    const [first, second, third, fourth] = locks as [Locked, Locked, Locked, Locked];
    expect(present(first)).toEqual({
      ...first,
      holder: { ...first.holder, label: 'Now' },
      since: new Date(2),
      fencingToken: 7,
    });
    expect(present(third)).toEqual({ ...third, holder: { ...third.holder, label: undefined } });
    for (const unsaid of [second, fourth]) expect(present(unsaid)).toEqual(unsaid);
    expect(silent).toBe(1);
  });

  type Locked = ReturnType<typeof lock>;
});
