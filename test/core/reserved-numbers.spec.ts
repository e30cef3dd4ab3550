/** A free lock comes with one fencing number; more are reserved when calls here take turns. */
import { describe, expect, it } from '@jest/globals';
import { assembleParts } from '../../libs/nestjs-locked/src/core/engine/assemble-parts.js';
import type { EngineParts } from '../../libs/nestjs-locked/src/core/lease/engine-parts.js';
import { FencingNumbers } from '../../libs/nestjs-locked/src/core/lease/fencing-numbers.js';
import type { LockOptions } from '../../libs/nestjs-locked/src/core/lock.options.js';
import type { Hold } from '../../libs/nestjs-locked/src/core/queue/hold.js';
import { QueuesByKey } from '../../libs/nestjs-locked/src/core/queue/queues-by-key.js';
import {
  resolveLockOptions,
  resolveServiceOptions,
} from '../../libs/nestjs-locked/src/core/resolved.options.js';
import {
  FENCE_BLOCK,
  LARGEST_FENCE_BLOCK,
} from '../../libs/nestjs-locked/src/core/store/fence-block.js';
import { FakeClock, settled } from '../support/fake-clock.js';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { granted, ScriptedStore, unknown } from '../support/scripted-store.js';

const FIRST = 100;

const one = (token: string) => ({ ...granted(token, FIRST), blockEnd: FIRST });
const renewed = (blockEnd: number) => ({ kind: 'renewed', blockEnd, waiters: 0 }) as const;

/** A call that holds a lock which was free. */
async function startHeld(options: Parameters<typeof startScripted>[0] = {}) {
  const scripted = await startScripted(options);
  const { engine, store } = scripted;
  const holding = engine.acquire(KEY);
  const ask = await store.next('acquire');
  ask.reply(one(ask.command.token));
  return { ...scripted, lock: await holding, token: ask.command.token };
}

describe('the fencing numbers of a lease', () => {
  const numbersFrom = (fence: number): FencingNumbers => {
    const numbers = new FencingNumbers({ fence, blockEnd: fence });
    numbers.reserved(fence + 1_000_000);
    return numbers;
  };

  it.each([
    [true, FENCE_BLOCK],
    [false, 501],
  ])(
    'are reserved for all calls that wait unless another process does: %s',
    async (isWanted, count) => {
      const { clock, store, engine, wanted, token } = await startHeld();
      for (let i = 0; i < 500; i++) void engine.acquire(KEY);
      (await store.next('renew')).reply(unknown);
      if (isWanted) wanted(token);
      await clock.advance(100);
      (await store.next('renew')).reply(renewed(0));
      await settled();
      void engine.acquire(KEY);
      expect((await store.next('renew')).command).toMatchObject({ reserves: count });
    },
  );

  it('stay reserved when a renewal has reserved none', () => {
    const numbers = new FencingNumbers({ fence: FIRST, blockEnd: FIRST + 40 });
    numbers.next();
    numbers.reserved(0);
    expect(numbers.areSpent).toBe(false);
    expect(numbers.next()).toBe(FIRST + 1);
  });

  it('are reserved as many as were used, within bounds', () => {
    const numbers = numbersFrom(FIRST);
    const most = LARGEST_FENCE_BLOCK;
    let used = 0;
    for (const [until, more] of [
      [1, FENCE_BLOCK],
      [FENCE_BLOCK, FENCE_BLOCK],
      [501, 500],
      [most + 2, most],
    ] as const) {
      for (; used < until; used++) numbers.next();
      expect(numbers.more(0)).toBe(more);
    }
  });

  it('never fall, whatever a database has seen', () => {
    const numbers = numbersFrom(FIRST);
    numbers.raise(FIRST + 50);
    numbers.raise(FIRST + 7);
    expect(numbers.next()).toBe(FIRST + 51);
  });
});

describe('a lock that was free', () => {
  it('is released without a number, because none is given back', async () => {
    const { store, lock } = await startHeld();
    void lock.release();
    expect((await store.next('release')).command).toMatchObject({ used: 0 });
  });

  it('is renewed without a need for numbers', async () => {
    const { clock, store, token } = await startHeld();
    await clock.advance(10_000);
    const renewal = await store.next('renew');
    expect(renewal.command).toMatchObject({ token, used: FIRST, reserves: 0 });
    renewal.reply(renewed(0));
    await clock.advance(10_000);
    expect((await store.next('renew')).command).toMatchObject({ reserves: 0 });
  });

  it('reserves numbers as soon as a second call comes, which need not wait for them', async () => {
    const { store, engine, lock } = await startHeld();
    const second = engine.acquire(KEY);
    const renewal = await store.next('renew');
    expect(renewal.command).toMatchObject({ used: FIRST, reserves: FENCE_BLOCK });
    renewal.reply(renewed(FIRST + FENCE_BLOCK));
    await settled();
    void lock.release();
    expect((await second).fencingToken).toBe(FIRST + 1);
    expect(await store.unanswered()).toEqual([]);
  });

  it('reserves numbers once, however many calls come', async () => {
    const { store, engine, lock } = await startHeld();
    const others = Array.from({ length: 5 }, () => engine.acquire(KEY));
    expect(await store.unanswered()).toEqual(['renew']);
    void lock.release(); // the renewal in flight confirms the lease for the next call as well
    expect(await store.unanswered()).toEqual(['renew']);
    (await store.next('renew')).reply(renewed(FIRST + FENCE_BLOCK));
    const numbers: number[] = [];
    for (const other of others) {
      const next = await other;
      numbers.push(next.fencingToken);
      void next.release();
    }
    expect(numbers).toEqual([1, 2, 3, 4, 5].map((n) => FIRST + n));
    expect((await store.next('release')).command).toMatchObject({ used: FIRST + 5 });
  });

  it('is not renewed again for every call that comes while Redis answers with errors', async () => {
    const { clock, store, engine } = await startHeld();
    void engine.acquire(KEY);
    (await store.next('renew')).reply(unknown);
    for (let i = 0; i < 90; i++) {
      await clock.advance(1);
      void engine.acquire(KEY);
    }
    expect(await store.unanswered()).toEqual([]);
    await clock.advance(10);
    (await store.next('renew')).reply(renewed(0));
    await settled();
    void engine.acquire(KEY);
    // One for each call that waits.
    expect((await store.next('renew')).command).toMatchObject({ reserves: 92 });
  });

  it('is asked for numbers when the second call came before the grant', async () => {
    const { store, engine } = await startScripted();
    const [first, second] = [engine.acquire(KEY), engine.acquire(KEY)];
    const ask = await store.next('acquire');
    ask.reply(one(ask.command.token));
    const renewal = await store.next('renew');
    expect(renewal.command).toMatchObject({ reserves: FENCE_BLOCK });
    void (await first).release();
    renewal.reply(renewed(FIRST + FENCE_BLOCK));
    expect((await second).fencingToken).toBe(FIRST + 1);
  });

  it('gives out no number that is not reserved: the next call waits until Redis answers', async () => {
    const { clock, store, engine, lock } = await startHeld();
    const second = engine.acquire(KEY);
    (await store.next('renew')).reply(unknown);
    await settled();
    void lock.release();
    const renewal = await store.next('renew');
    expect(renewal.command).toMatchObject({ used: FIRST, reserves: FENCE_BLOCK });
    let hasIt = false;
    void second.then(() => (hasIt = true));
    await clock.advance(100);
    expect(hasIt).toBe(false);
    renewal.reply(renewed(FIRST + FENCE_BLOCK));
    expect((await second).fencingToken).toBe(FIRST + 1);
  });

  it('that is lost while numbers are reserved is requested again by the next call', async () => {
    const { store, engine, lock } = await startHeld();
    const second = engine.acquire(KEY);
    (await store.next('renew')).reply({ kind: 'lost' });
    await settled();
    expect(lock.isHeld).toBe(false);
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token, 900));
    expect((await second).fencingToken).toBe(900);
  });

  it('reserves no numbers for a call that cannot get this lease', async () => {
    const { store, engine } = await startScripted();
    const fixed = engine.acquire(KEY, { renew: false });
    const ask = await store.next('acquire');
    ask.reply(one(ask.command.token));
    await fixed;
    void engine.acquire(KEY).catch(() => {});
    expect(await store.unanswered()).toEqual([]);
  });

  it('that lingers asks for numbers when the next call comes', async () => {
    const { store, engine, lock } = await startHeld({ lingerMs: 5_000 });
    await lock.release();
    const second = engine.acquire(KEY);
    const renewal = await store.next('renew');
    expect(renewal.command).toMatchObject({ used: FIRST, reserves: FENCE_BLOCK });
    renewal.reply(renewed(FIRST + FENCE_BLOCK));
    expect((await second).fencingToken).toBe(FIRST + 1);
  });
});

describe('a lease that calls have shared', () => {
  it('reserves more numbers with its renewal when half of them are used', async () => {
    const { clock, store, engine, lock } = await startHeld();
    const second = engine.acquire(KEY);
    (await store.next('renew')).reply(renewed(FIRST + FENCE_BLOCK / 2));
    await settled();
    void lock.release();
    await second;
    await clock.advance(10_000);
    const renewal = await store.next('renew');
    expect(renewal.command).toMatchObject({ used: FIRST + 1, reserves: FENCE_BLOCK });
    renewal.reply(renewed(FIRST + 1 + FENCE_BLOCK));
    await clock.advance(10_000);
    expect((await store.next('renew')).command).toMatchObject({ reserves: 0 });
  });

  it('tells Redis at its end which numbers were used, so that the rest is given back', async () => {
    const { store, engine, lock } = await startHeld();
    const second = engine.acquire(KEY);
    (await store.next('renew')).reply(renewed(FIRST + FENCE_BLOCK));
    await settled();
    void lock.release();
    void (await second).release();
    expect((await store.next('release')).command).toMatchObject({ used: FIRST + 1 });
  });

  it('reserves as many numbers as were used until then, so that calls seldom wait for more', async () => {
    const { store, engine, lock } = await startHeld();
    let last = lock;
    const asked: number[] = [];
    for (let n = 0; n < 30_000; n++) {
      const next = engine.acquire(KEY);
      void last.release();
      for (const kind of await store.unanswered()) {
        expect(kind).toBe('renew');
        const renewal = await store.next('renew');
        const { used, reserves } = renewal.command;
        asked.push(reserves);
        renewal.reply(renewed(used + reserves));
      }
      last = await next;
    }
    expect(last.fencingToken).toBe(FIRST + 30_000);
    expect(asked).toEqual([40, 40, 80, 160, 320, 640, 1_280, 2_560, 5_120, 10_000, 10_000]);
  });
});

/** Queues below the engine, whose holds can be told what a database has seen. */
function startQueues(of?: LockOptions) {
  const clock = new FakeClock();
  const store = new ScriptedStore();
  const options = resolveServiceOptions({});
  const supplies = { store, options, clock, report: () => {}, random: () => 0 };
  const parts: EngineParts = assembleParts(supplies, () => queues);
  const queues = new QueuesByKey(parts);
  const enter = (): Promise<Hold> =>
    queues.enter({
      key: KEY,
      options: resolveLockOptions(of, options),
      isOneOfSeveral: false,
      limits: { since: clock.now(), waitMs: Infinity, answerBy: Infinity },
    });
  return { store, enter };
}

describe('a number that the database wants raised', () => {
  it('is not given out before the store has reserved it, as while the key moves to another server', async () => {
    const { store, enter } = startQueues();
    const entering = enter();
    const ask = await store.next('acquire');
    ask.reply(one(ask.command.token));
    const hold = await entering;

    const endless = hold.raiseFence(2 ** 60); // it would be raised for all keys
    await expect(endless).rejects.toThrow('which no clock can have issued');
    expect(await store.unanswered()).toEqual([]);

    const refused = hold.raiseFence(FIRST + 10);
    const short = await store.next('renew');
    expect(short.command).toMatchObject({ used: FIRST + 10, reserves: FENCE_BLOCK });
    short.reply(renewed(0));
    const inWork = { code: 'LOCK_STORE_FAILED', key: KEY, workBegan: true };
    await expect(refused).rejects.toMatchObject(inWork);
    const unanswered = hold.raiseFence(FIRST + 10);
    (await store.next('renew')).reply(unknown);
    await expect(unanswered).rejects.toMatchObject({ ...inWork, cause: unknown.cause });
    expect(hold.fencingToken).toBe(FIRST);

    const raised = hold.raiseFence(FIRST + 10);
    (await store.next('renew')).reply(renewed(FIRST + 10 + FENCE_BLOCK));
    await raised;
    expect(hold.fencingToken).toBe(FIRST + 11);
  });

  it.each([
    ['the same', 10],
    ['a higher one', 20],
  ])('is that of all readers, one of whom has seen %s meanwhile', async (_, seen) => {
    const { store, enter } = startQueues({ mode: 'shared' });
    const entering = [enter(), enter(), enter()];
    const ask = await store.next('acquire');
    ask.reply(one(ask.command.token));
    const [a, b, c] = (await Promise.all(entering)) as [Hold, Hold, Hold];

    const raised = [a.raiseFence(FIRST + 10), b.raiseFence(FIRST + 10)];
    const [ofA, ofB] = [await store.next('renew'), await store.next('renew')];
    ofA.reply(renewed(FIRST + 11));
    await raised[0];
    expect(a.fencingToken).toBe(FIRST + 11);
    const late = c.raiseFence(FIRST + seen);
    const ofC = await store.next('renew');
    ofB.reply(renewed(FIRST + 11));
    const again = seen === 10 ? undefined : await store.next('renew');
    ofC.reply(renewed(FIRST + seen + 1));
    again?.reply(renewed(FIRST + seen + 1));
    await Promise.all([...raised, late]);
    expect([b, c].map((hold) => hold.fencingToken)).toEqual([FIRST + seen + 1, FIRST + seen + 1]);
  });
});

describe('a grant that came as a message', () => {
  it('gives out no number that others may have had since, if its command was repeated', async () => {
    const { clock, store, waiting, grant } = await startScripted();
    const { hold, token } = await waiting();
    clock.block(20_000); // the grant has lapsed, and the repeated command has got the key again
    grant(token, FIRST);
    await store.next('recheck'); // its time has come as well
    const renewal = await store.next('renew');
    expect(renewal.command).toMatchObject({ token, used: 0, reserves: FENCE_BLOCK });
    renewal.reply(renewed(5_000_000));
    expect((await hold).fencingToken).toBe(5_000_001 - FENCE_BLOCK);
  });

  it('gives out no number while the store confirms the lease without any, as while its slot moves', async () => {
    const { clock, store, waiting, grant } = await startScripted();
    const { hold, token } = await waiting();
    clock.block(20_000);
    grant(token, FIRST);
    await store.next('recheck');
    (await store.next('renew')).reply(renewed(0));
    const again = await store.next('renew');
    expect(again.command).toMatchObject({ token, used: 0, reserves: FENCE_BLOCK });
    again.reply(renewed(5_000_000));
    expect((await hold).fencingToken).toBe(5_000_001 - FENCE_BLOCK);
  });

  it('asks for numbers again if it is unknown whether the store has confirmed the lease', async () => {
    const { clock, store, waiting, grant } = await startScripted();
    const { hold, token } = await waiting();
    clock.block(2_000);
    grant(token, FIRST);
    (await store.next('renew')).reply(unknown);
    await clock.advance(2_000);
    const again = await store.next('renew');
    expect(again.command).toMatchObject({ token, used: 0, reserves: FENCE_BLOCK });
    again.reply(renewed(5_000_000));
    expect((await hold).fencingToken).toBe(5_000_001 - FENCE_BLOCK);
  });

  it('gives no numbers back before they are confirmed: the application closes', async () => {
    const { clock, store, engine, waiting, grant } = await startScripted();
    const { token } = await waiting();
    clock.block(20_000);
    grant(token, FIRST);
    await store.next('recheck');
    await store.next('renew');
    engine.drain();
    void engine.close(1_000);
    expect((await store.next('release')).command).toMatchObject({ token, used: 0 });
  });

  it('gives no numbers back before they are confirmed: nobody wants the lease, and its renewal is in doubt', async () => {
    const { clock, store, waiting, grant } = await startScripted();
    const abort = new AbortController();
    const { token } = await waiting({ signal: abort.signal });
    clock.block(20_000);
    grant(token, FIRST);
    await store.next('recheck');
    const renewal = await store.next('renew');
    abort.abort();
    renewal.reply(unknown);
    expect((await store.next('release')).command).toMatchObject({ token, used: 0 });
  });

  it('gives no numbers back when it was lost under its work: a repeated command may have acquired it again', async () => {
    const { clock, store, waiting, grant } = await startScripted();
    const { hold, token } = await waiting();
    grant(token, FIRST);
    const lock = await hold;
    expect(lock.fencingToken).toBe(FIRST);
    clock.block(20_000); // others have had it since, with higher numbers
    await lock.release();
    expect((await store.next('release')).command).toMatchObject({ token, used: 0 });
  });
});
