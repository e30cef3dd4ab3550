/** What one node answers to commands that arrive in another order than they were sent. */
import { expect, it } from '@jest/globals';
import { RedisKeys } from '../../libs/nestjs-locked/src/redis/scripts/redis-keys.js';
import type { RedisScript } from '../../libs/nestjs-locked/src/redis/scripts/redis-script.js';
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
