/** When what must be taken back is tried again: alone, or in turn with a thousand others that the store refuses. */
import { describe, expect, it } from '@jest/globals';
import { CleanUp } from '../../libs/nestjs-locked/src/core/store/clean-up.js';
import type { TakeBackReply, Unknown } from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { Outages } from '../../libs/nestjs-locked/src/core/store/outages.js';
import { Scheduler } from '../../libs/nestjs-locked/src/core/time/scheduler.js';
import { FakeClock, settled } from '../support/fake-clock.js';
import { ScriptedStore, unknown } from '../support/scripted-store.js';

const refused: Unknown = { ...unknown, isRefused: true };
const left: TakeBackReply = { kind: 'left' };
/** Enough others that none of them has its turn soon. */
const OTHERS = 1_000;

type Answer = (token: string) => TakeBackReply | Promise<TakeBackReply>;

/** The clean-up alone. Each key has tokens of its own, so a token says what was tried. */
function start(answer: Answer) {
  const [clock, store] = [new FakeClock(), new ScriptedStore()];
  const scheduler = new Scheduler(clock, { before: () => {}, after: () => {} });
  const cleanUp = new CleanUp(store, clock, scheduler, new Outages(store, clock, 0, () => {}));
  const tried: string[] = [];
  let answerNow = answer;
  store.takeBack = (commands) =>
    commands.map(async ({ tokens: [token] }) => {
      tried.push(token);
      return answerNow(token);
    });
  const leave = (key: string, token = key, until = Infinity, done = (): void => {}): void =>
    cleanUp.leave(key, [token], until, done);
  return {
    ...{ clock, store, scheduler, cleanUp, leave },
    answers: (next: Answer) => void (answerNow = next),
    leaveOthers: (until = Infinity) => {
      for (let i = 0; i < OTHERS; i++) leave(`other:${i}`, undefined, until);
    },
    /** What was tried since the last call. */
    tried: async () => {
      await settled();
      return tried.splice(0);
    },
  };
}

describe('what the store refuses to take back', () => {
  it('is not tried at once because one entry was taken back out of turn', async () => {
    const { cleanUp, leave, leaveOthers, tried, answers } = start(() => refused);
    leave('k');
    leaveOthers();
    await tried();
    answers((token) => (token === 'k' ? left : refused));
    cleanUp.returnAtOnce('k', 'k', Infinity, () => {});
    expect(await tried()).toEqual(['k']);
  });

  it('is not tried at once because a try has shown that an entry will never be taken back', async () => {
    const { clock, leaveOthers, tried, answers } = start(() => refused);
    leaveOthers();
    await tried();
    answers(() => ({ ...refused, isLasting: true }));
    await clock.advance(500);
    const many = await tried();
    expect(many.length).toBeGreaterThan(5);
    expect(many.length).toBeLessThanOrEqual(10);
  });

  it('is not tried at once because the refused part of a key was not answered', async () => {
    const first: Answer = (token) => (token === 'never refused' ? unknown : refused);
    const { clock, leave, leaveOthers, tried, answers } = start(first);
    leave('k', 'refused before');
    leave('k', 'never refused');
    leaveOthers();
    await tried();
    answers((token) => {
      if (token === 'refused before') return unknown;
      return token === 'never refused' ? left : refused;
    });
    await clock.advance(150);
    const few = await tried();
    expect(few).toEqual(expect.arrayContaining(['refused before', 'never refused']));
    expect(few.length).toBeLessThan(10);
  });

  it('has its turn soon when the others have ended', async () => {
    const { clock, leave, leaveOthers, tried } = start(() => refused);
    leaveOthers(clock.now() + 500);
    await clock.advance(500);
    leave('late');
    await tried();
    await clock.advance(200);
    expect(await tried()).toEqual(['late']);
  });

  it('has its turn soon when all others are allowed again', async () => {
    const { clock, cleanUp, leave, leaveOthers, tried, answers } = start(() => refused);
    leave('k');
    leaveOthers();
    await clock.advance(10_000);
    answers((token) => (token === 'k' ? refused : left));
    cleanUp.lookAgain();
    expect(await tried()).toContain('k');
    await clock.advance(200);
    expect(await tried()).toEqual(['k']);
  });

  it('is settled when it ends on its own, although its turn comes later', async () => {
    const { clock, cleanUp, leave, leaveOthers } = start(() => refused);
    const told: string[] = [];
    leaveOthers();
    leave('k', 'k', clock.now() + 2_000, () => void told.push('done'));
    cleanUp.whenSettled('k', () => void told.push('settled'));
    await clock.advance(1_999);
    expect(told).toEqual([]);
    await clock.advance(1);
    expect(told).toEqual(['done', 'settled']);
  });

  it('is tried once a second, however often somebody wants its key', async () => {
    const { clock, cleanUp, leave, leaveOthers, tried } = start(() => refused);
    leaveOthers();
    leave('k');
    await tried();
    for (let ms = 0; ms < 3_000; ms += 10) {
      expect(cleanUp.stuckBy('k')).toBeDefined();
      await clock.advance(10);
    }
    expect((await tried()).filter((token) => token === 'k')).toHaveLength(3);
  });
});

describe('releases of many keys', () => {
  const releaseMany = async (first: Unknown) => {
    const { clock, store, cleanUp, tried } = start(() => first);
    store.release = async () => first;
    for (let i = 0; i < OTHERS; i++) {
      const command = { key: `k:${i}`, token: `k:${i}`, used: 1 };
      await cleanUp.release(command, Infinity, () => {});
    }
    return { clock, tried };
  };

  it('are repeated in turn if the store has refused them', async () => {
    const { clock, tried } = await releaseMany(refused);
    await clock.advance(1_000);
    const few = await tried();
    expect(few.length).toBeGreaterThan(10);
    expect(few.length).toBeLessThanOrEqual(20);
  });

  it('are all repeated soon if the store has not answered', async () => {
    const { clock, tried } = await releaseMany(unknown);
    await clock.advance(100);
    expect(new Set(await tried()).size).toBe(OTHERS);
  });
});

describe('what the store has not answered', () => {
  it('still pauses for its full time after a late answer, although somebody wants its key', async () => {
    let reply!: (answer: TakeBackReply) => void;
    const answer = () => new Promise<TakeBackReply>((resolve) => (reply = resolve));
    const { clock, cleanUp, leave, tried } = start(answer);
    leave('k');
    await clock.advance(2_000);
    reply(unknown);
    expect(await tried()).toEqual(['k']);
    expect(cleanUp.stuckBy('k')).toBeDefined();
    await clock.advance(99);
    expect(await tried()).toEqual([]);
    await clock.advance(1);
    expect(await tried()).toEqual(['k']);
  });

  it('pauses once for a key, however many clean-ups are pending for it', async () => {
    const { clock, leave, tried } = start(() => unknown);
    for (const token of ['a', 'b', 'c']) leave('k', token);
    await tried();
    await clock.advance(100);
    expect(await tried()).toEqual(['a', 'b', 'c']);
    await clock.advance(199);
    expect(await tried()).toEqual([]);
    await clock.advance(1);
    expect(await tried()).toEqual(['a', 'b', 'c']);
  });

  it('leaves nothing scheduled when the rest of its key was taken back during the pause', async () => {
    let reply!: (answer: TakeBackReply) => void;
    const { clock, scheduler, cleanUp, leave } = start((token) =>
      token === 'ended' ? refused : new Promise((resolve) => (reply = resolve)),
    );
    leave('k', 'ended', clock.now() + 150);
    await settled();
    cleanUp.returnAtOnce('k', 'given', Infinity, () => {}); // `ended` is tried with it, and pauses for longer
    await clock.advance(150);
    reply(left);
    await settled();
    expect(scheduler.size).toBe(0);
  });
});
