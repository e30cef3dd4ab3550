/** What one node answers to commands that arrive in another order than they were sent. */
import { expect, it } from '@jest/globals';
import { processIdOf } from '../../libs/nestjs-locked/src/core/store/lease-token.js';
import { RedisKeys } from '../../libs/nestjs-locked/src/redis/scripts/redis-keys.js';
import type { RedisScript } from '../../libs/nestjs-locked/src/redis/scripts/redis-script.js';
import { afterTest } from '../support/after-test.js';
import { connectAdmin } from '../support/connect-admin.js';
import { lockOf, quorumScripts, tokenOfOther, useQuorum } from '../support/own-quorum.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 60_000;

const quorum = useQuorum(1);
const scripts = quorumScripts();

/** A node with one lock, before anybody has voted. */
function newLock() {
  const key = uniqueKey();
  const token = tokenOfOther();
  const run = (script: RedisScript, ...args: (string | number)[]): Promise<unknown> => {
    const redis = quorum.admins[0];
    if (redis === undefined) throw new Error('not started');
    return script.send(redis, new RedisKeys('lock:', true).of(key).slice(0, 3), args, true);
  };
  return {
    key,
    token,
    run,
    vote: (round: number) => run(scripts.vote, token, LEASE_MS, '', '', round),
    giveBack: (round: number | '', of = token) =>
      run(scripts.giveBack, of, '', 0, 0, 0, '', '', 0, round),
    holder: () => quorum.admins[0]?.get(lockOf(key)),
    /** The highest number that the node has stored. */
    last: async () => Number((await quorum.admins[0]?.get(`${lockOf(key)}:fence`))?.split(' ')[0]),
  };
}

it('keeps the vote of a later round when that of an earlier one is taken back [G49]', async () => {
  const { token, vote, giveBack, holder } = newLock();
  await vote(1);
  await vote(2);
  await vote(1); // sent on a connection that broke
  expect(await giveBack(1)).toEqual([0, '']);
  expect(await holder()).toBe(token);
  expect(await giveBack(2)).toEqual([1, '']);
  expect(await holder()).toBeNull();
});

it('takes back the numbers of lost rounds, whatever was stored for them', async () => {
  const { token, run, vote, giveBack, last } = newLock();
  const other = tokenOfOther();
  const reply = (await run(scripts.vote, other, LEASE_MS, '', '', 1)) as string[];
  const used = Number(reply[1]);
  await run(scripts.giveBack, other, '', used, 0, 0, '', '', 0, '');
  expect(await last()).toBe(used);
  await vote(1);
  await vote(2);
  await run(scripts.raise, token, (Date.now() + 60_000) * 1_000, LEASE_MS);
  expect(await last()).toBeGreaterThan(used);
  await giveBack(2);
  expect(await last()).toBe(used);
});

it('takes back the numbers of a lost round of an adoption, but for those that were used', async () => {
  const { token, run, vote, last } = newLock();
  const reply = (await vote(1)) as string[];
  const used = Number(reply[1]) + 5;
  const adopter = tokenOfOther();
  await run(scripts.adopt, token, adopter, LEASE_MS, used, 1);
  expect(await last()).toBeGreaterThan(used);
  await run(scripts.undoAdopt, token, adopter, LEASE_MS, 1);
  expect(await last()).toBe(used);
});

it('takes back whatever it has voted when the request has ended', async () => {
  const { vote, giveBack, holder } = newLock();
  await vote(3);
  expect(await giveBack('')).toEqual([1, '']);
  expect(await holder()).toBeNull();
});

it('counts the rounds of each token alone', async () => {
  const { key, run, vote, giveBack, holder } = newLock();
  await vote(4);
  await quorum.admins[0]?.del(lockOf(key)); // its time is over
  const other = tokenOfOther();
  await run(scripts.vote, other, LEASE_MS, '', '', 1);
  expect(await giveBack(1, other)).toEqual([1, '']);
  expect(await holder()).toBeNull();
});

it('keeps a lease that was renewed [G49]', async () => {
  const { token, run, vote, giveBack, holder } = newLock();
  await vote(2);
  await run(scripts.renew, token, LEASE_MS, 0);
  expect(await giveBack(2)).toEqual([0, '']);
  expect(await holder()).toBe(token);
});

it('keeps the number of the round when a higher fencing number is stored [G49]', async () => {
  const { token, run, vote, giveBack, holder } = newLock();
  await vote(2);
  expect(await run(scripts.raise, token, (Date.now() + 60_000) * 1_000, LEASE_MS)).toBe(1);
  expect(await giveBack(1)).toEqual([0, '']);
  expect(await giveBack(2)).toEqual([1, '']);
  expect(await holder()).toBeNull();
});

it('keeps what a later round of an adoption has taken over [G49]', async () => {
  const { token, run, vote, holder } = newLock();
  await vote(5);
  const adopter = tokenOfOther();
  const adopt = (round: number) => run(scripts.adopt, token, adopter, LEASE_MS, 0, round);
  const undo = (round: number) => run(scripts.undoAdopt, token, adopter, LEASE_MS, round);
  await adopt(1);
  await adopt(2);
  await adopt(1);
  expect(await undo(1)).toBe(0);
  expect(await holder()).toBe(adopter);
  expect(await undo(2)).toBe(1);
  expect(await holder()).toBe(token);
});

it('keeps a lease that an adoption has given back, whatever is left of the rounds that won it [G49]', async () => {
  const { token, run, vote, giveBack, holder } = newLock();
  await vote(2);
  await run(scripts.renew, token, LEASE_MS, 0); // it is left to whoever has its token
  const adopter = tokenOfOther();
  await run(scripts.adopt, token, adopter, LEASE_MS, 0, 1);
  await run(scripts.undoAdopt, token, adopter, LEASE_MS, 1);
  expect(await giveBack(1)).toEqual([0, '']);
  expect(await holder()).toBe(token);
});

it('shortens no vote, however late what was sent before comes [G49]', async () => {
  const { key, token, run, vote } = newLock();
  await vote(1);
  await run(scripts.vote, token, 1_000, '', '', 1);
  await run(scripts.renew, token, 1_000, 0);
  expect(await quorum.admins[0]?.pttl(lockOf(key))).toBeGreaterThan(LEASE_MS / 2);
});

it('lowers no number that it has stored, however late what was sent before comes [G55]', async () => {
  const { token, run, vote, last } = newLock();
  const reply = (await vote(1)) as string[];
  await run(scripts.raise, token, 1, LEASE_MS);
  await run(scripts.renew, token, LEASE_MS, 1);
  expect(await last()).toBe(Number(reply[2]));
});

it('keeps a number until its clock has passed it [G55]', async () => {
  const { key, token, run, vote } = newLock();
  const aheadMs = 3_600_000;
  await vote(1);
  await run(scripts.raise, token, (Date.now() + aheadMs) * 1_000, LEASE_MS);
  expect(await quorum.admins[0]?.pttl(`${lockOf(key)}:fence`)).toBeGreaterThan(aheadMs);
});

it('begins an adoption above all numbers that were used, although it did not know them [G55]', async () => {
  const { token, run, vote } = newLock();
  await vote(1);
  const used = (Date.now() + 60_000) * 1_000;
  const reply = await run(scripts.adopt, token, tokenOfOther(), LEASE_MS, used, 1);
  expect((reply as string[])[1]).toBe(String(used + 1));
});

it('takes whoever gets its vote out of the line, where nobody gets a later place by asking again [G54]', async () => {
  const { key, token, run } = newLock();
  const queue = `${lockOf(key)}:queue`;
  const now = Date.now() * 1_000;
  const inbox = connectAdmin(quorum.urls[0] ?? ''); // or it would count as dead
  afterTest(() => inbox.disconnect());
  await inbox.subscribe(`lock:inbox:${processIdOf(token)}`);
  const asks = (place: string, score: number) =>
    run(scripts.vote, place, LEASE_MS, place, score, 1);
  await quorum.admins[0]?.set(lockOf(key), tokenOfOther(), 'PX', LEASE_MS);
  await asks(token, now - 2_000_000);
  await asks(token, now - 1_000_000);
  expect(await quorum.admins[0]?.zscore(queue, token)).toBe(String(now - 2_000_000));
  await quorum.admins[0]?.del(lockOf(key));
  await asks(token, now);
  expect(await quorum.admins[0]?.exists(queue)).toBe(0);
});
