/**
 * The program of the worker thread, as text: a file of its own would be lost by bundlers, and the text of a function is
 * changed by minifiers. It is CommonJS and needs nothing but Node and ioredis, whose file it is given.
 *
 * It looks at the shared memory (`SharedLeases` describes it) twenty times a second, and sends a renewal for each lease
 * that is due. Nothing is due while the main thread renews in time. The answer counts only if the main thread has not
 * written to the lease since, and if the deadline has not passed. An error or no answer is tried again; "not yours"
 * ends the renewals of the lease.
 */
export const WORKER_PROGRAM = `
'use strict';
const { parentPort, workerData } = require('node:worker_threads');
const { ioredis, connection, origin, script, segments: first, limits } = workerData;
const { Redis } = require(ioredis);
const { LOOK_MS, RETRY_MS, PORTION, CLOSED, REFUSED, TERMS } = limits;

/** The monotonic clock of the main thread. */
const now = () => Number(process.hrtime.bigint() - origin) / 1e6;

// ---- the connection ---------------------------------------------------------------------------------------

const delay = (times) => Math.min(50 * 2 ** Math.min(times, 5), 1000);
const redis = new Redis({
  ...connection,
  retryStrategy: delay,
  sentinelRetryStrategy: delay,
  sentinelReconnectStrategy: (times) => Math.min(50 * 2 ** Math.min(times, 7), 5000),
});
let isReady = false;
let reason = 'Connection is closed';

const LACKS_RIGHTS = /NOPERM|No permission|can't|CROSSSLOT|same slot/i;
const isReplyError = (error) => error.name === 'ReplyError';
/** Drops a connection on which nothing is answered, or which leads to the wrong server; a new one is made. */
const replace = (error) => {
  reason = error.message;
  redis.stream?.destroy();
};

redis.on('error', (error) => (reason = error.message));
redis.on('connect', listenToSentinels);
redis.on('close', () => {
  isReady = false;
  parentPort.postMessage({ kind: 'lost', reason });
});
redis.on('end', () => setTimeout(() => redis.connect().catch(() => {}), 1000));
redis.on('ready', async () => {
  const { stream } = redis;
  try {
    // ioredis stays in database 0 if the server refuses, where our leases are not.
    if (redis.options.db) await redis.select(redis.options.db);
    await redis.script('LOAD', script.lua);
    if (redis.stream !== stream) return;
    isReady = true;
    parentPort.postMessage({ kind: 'ready' });
  } catch (error) {
    if (redis.stream === stream) replace(error);
  }
});

/** ioredis prints each failure of these connections, and a subscription that it repeats may end the thread. */
function listenToSentinels() {
  for (const { client } of redis.connector?.failoverDetector?.sentinels ?? []) {
    client.on('error', () => {});
    client.options.autoResubscribe = false;
    client.on('ready', () => client.subscribe('+switch-master').catch(() => {}));
  }
}

setInterval(() => {
  if (isReady) redis.ping().catch((error) => isReplyError(error) || replace(error));
}, limits.PING_MS);

// ---- the leases -------------------------------------------------------------------------------------------

const segments = [];
const add = (segment) => segments.push({ ...segment, leases: [] });
first.forEach(add);
parentPort.on('message', ({ segment, credentials }) => {
  if (segment !== undefined) add(segment);
  if (credentials !== undefined) Object.assign(redis.options, credentials);
});

/** What the main thread has written, or undefined if it is writing now. */
function read(segment, i, word) {
  const { words, terms, lengths, texts, textBytes } = segment;
  const [leaseMs, marginMs, endsAt, dueAt, until] = terms.subarray(i * TERMS, (i + 1) * TERMS);
  const from = i * textBytes;
  const middle = from + lengths[2 * i];
  const text = Buffer.from(texts.buffer);
  const lock = text.toString('utf8', from, middle);
  const token = text.toString('utf8', middle, middle + lengths[2 * i + 1]);
  if (Atomics.load(words, i) !== word) return undefined;
  const lease = { words, i, opened: word, word, lock, token, leaseMs, marginMs, endsAt, dueAt, until };
  // Renewed by a thread before this one.
  if (word > REFUSED) lease.endsAt = Math.max(endsAt, Number(word) / 1000 + leaseMs - marginMs);
  return lease;
}

function dueLeases() {
  const at = now();
  const due = [];
  for (const segment of segments) {
    const { words, terms, leases } = segment;
    for (let i = 0; i < words.length; i++) {
      const word = Atomics.load(words, i);
      if (word === CLOSED || word === REFUSED) continue;
      let lease = leases[i];
      // A negative number is of the main thread, a positive one is ours.
      if (lease === undefined || (word < 0n && lease.opened !== word)) {
        if (terms[i * TERMS + 3] > at) continue;
        lease = leases[i] = read(segment, i, word);
        if (lease === undefined) continue;
      }
      const { isAsked, dueAt, endsAt, until } = lease;
      if (!isAsked && dueAt <= at && at < endsAt && at < until) due.push(lease);
    }
  }
  return due.sort((a, b) => a.endsAt - b.endsAt);
}

function look() {
  if (!isReady) return;
  const due = dueLeases();
  for (let from = 0; from < due.length; from += PORTION) void renew(due.slice(from, from + PORTION));
}

async function renew(leases) {
  const keys = leases.flatMap(({ lock }) => [lock, lock + ':queue']);
  const args = leases.flatMap(({ token, leaseMs }) => [token, leaseMs]);
  const sentAt = now();
  for (const lease of leases) lease.isAsked = true;
  try {
    const [, ...named] = await redis.evalsha(script.sha, keys.length, ...keys, ...args);
    const refused = new Set(named.filter((entry) => entry.length === 1).map(([n]) => Number(n) - 1));
    leases.forEach((lease, n) => answered(lease, sentAt, !refused.has(n)));
  } catch (error) {
    // As in the main thread (mustBeAlone): the user may use the other keys.
    const isOfOneKey = isReplyError(error) && LACKS_RIGHTS.test(error.message);
    if (isOfOneKey && leases.length > 1) return void leases.forEach((lease) => renew([lease]));
    const retryAt = now() + RETRY_MS;
    for (const lease of leases) Object.assign(lease, { isAsked: false, dueAt: retryAt });
    if (!isReplyError(error) || /READONLY|MASTERDOWN|NOSCRIPT/.test(error.message)) replace(error);
  }
}

function answered(lease, sentAt, isRenewed) {
  lease.isAsked = false;
  if (now() >= lease.endsAt) return;
  const answer = isRenewed ? BigInt(Math.floor(sentAt * 1000)) : REFUSED;
  if (Atomics.compareExchange(lease.words, lease.i, lease.word, answer) !== lease.word) return;
  lease.word = answer;
  lease.endsAt = Math.max(lease.endsAt, sentAt + lease.leaseMs - lease.marginMs);
  lease.dueAt = sentAt + lease.leaseMs / 3;
}

setInterval(look, LOOK_MS);
`;
