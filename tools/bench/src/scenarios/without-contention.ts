/** What a lock costs that nobody else wants. */
import {
  type Form,
  nestjsLocked,
  withLinger,
  withoutAwaitedRelease,
} from '../adapters/nestjs-locked.js';
import { PEERS } from '../adapters/peers.js';
import { rawFloor } from '../adapters/raw-floor.js';
import type { Round } from '../measure/fleet.js';
import { contest, goal, measure } from './contest.js';
import { CLIENT_CPU, type CostedRound, RATE } from './measures.js';
import { atLeast, atMost } from './scenario.js';

export const sequence = contest({
  id: 'sequence',
  title: 'One caller, one key after the other, no contention',
  what: 'One caller takes and releases 300 keys in turn. Measures round trips.',
  isQuick: true,
  contestants: [rawFloor, ...PEERS, nestjsLocked, withoutAwaitedRelease],
  measures: [RATE, CLIENT_CPU],
  play: ({ fleet, pace }, adapter) =>
    fleet.apart(adapter, [keysOf('sequence', 300)], { ms: 400 * pace }),
  goals: [
    goal('sequence-floor', 'Holds per second of one caller', RATE, atLeast(0.9), { to: rawFloor }),
    goal('sequence-peer', 'Holds per second of one caller', RATE, atLeast(1), { to: PEERS }),
    goal(
      'sequence-no-await',
      'Holds per second of one caller with `awaitRelease: false`',
      RATE,
      atLeast(1.4),
      { by: withoutAwaitedRelease, to: rawFloor },
    ),
  ],
});

const OF_64 = 'of 64 callers on 64 keys';

const WHOLE_CPU = measure<CostedRound>(
  'whole-cpu',
  'server CPU with the network',
  'µs',
  ({ serverUs, holds }) => serverUs / holds,
);

export const manyKeys = contest({
  id: 'many-keys',
  title: '64 callers on 64 keys',
  what: '64 callers of one process take and release a key each. Measures the client’s work per lock.',
  isQuick: true,
  contestants: [rawFloor, ...PEERS, nestjsLocked],
  measures: [RATE, CLIENT_CPU, WHOLE_CPU],
  play: ({ fleet, server, pace }, adapter) =>
    server.spentOn(`many-keys of ${adapter.id}`, () =>
      fleet.apart(adapter, ofOneEach('many-keys', 64), { ms: 400 * pace }),
    ),
  goals: [
    goal('many-keys-peer', `Holds per second ${OF_64}`, RATE, atLeast(1), { to: PEERS }),
    goal('many-keys-floor', `Holds per second ${OF_64}`, RATE, atLeast(1.3), { to: rawFloor }),
    goal('many-keys-cpu', `Client CPU per lock ${OF_64}`, CLIENT_CPU, atMost(0.8), {
      to: rawFloor,
    }),
    goal('many-keys-server', `Server CPU per lock ${OF_64}`, WHOLE_CPU, atMost(0.8), {
      to: rawFloor,
    }),
  ],
});

/** Callers of one process with keys of their own, at a time: what they ask in one turn shares commands. */
export const ownKeys = [
  { callers: 4, rate: 0.9, clientCpu: 1 },
  { callers: 8, rate: 0.9, clientCpu: 1 },
  { callers: 16, rate: 0.9, clientCpu: 1 },
  { callers: 256, rate: 1.3, clientCpu: 0.8 },
].map(({ callers, rate, clientCpu }) => {
  const id = `own-keys-${callers}`;
  const of = `of ${callers} callers on keys of their own`;
  return contest({
    id,
    title: `${callers} callers on keys of their own`,
    what: `${callers} callers of one process take and release a key each. Measures what a lock costs when few or many are wanted at a time.`,
    isQuick: true,
    contestants: [rawFloor, nestjsLocked],
    measures: [RATE, CLIENT_CPU, WHOLE_CPU],
    play: ({ fleet, server, pace }, adapter) =>
      server.spentOn(`${id} of ${adapter.id}`, () =>
        fleet.apart(adapter, ofOneEach(id, callers), { ms: 250 * pace }),
      ),
    goals: [
      goal(`${id}-floor`, `Holds per second ${of}`, RATE, atLeast(rate), { to: rawFloor }),
      goal(`${id}-cpu`, `Client CPU per lock ${of}`, CLIENT_CPU, atMost(clientCpu), {
        to: rawFloor,
      }),
    ],
  });
});

const SERVER_CPU = measure<CostedRound>(
  'server-cpu',
  'server CPU in commands',
  'µs',
  ({ us, holds }) => us / holds,
);
const COMMANDS = measure<CostedRound>(
  'commands',
  'commands',
  '',
  ({ commands, holds }) => commands / holds,
);

export const serverCpu = contest({
  id: 'server-cpu',
  title: 'What a lock costs the server',
  what: 'Redis’ reported time to take and release one free lock, commands inside scripts included; then the server’s whole CPU time.',
  isQuick: true,
  contestants: [rawFloor, ...PEERS, nestjsLocked],
  measures: [SERVER_CPU, WHOLE_CPU, COMMANDS],
  play: ({ fleet, server, pace }, adapter) =>
    server.spentOn(`server-cpu of ${adapter.id}`, () =>
      fleet.apart(adapter, [keysOf('server-cpu', 300)], { ms: 250 * pace }),
    ),
  goals: [
    goal('server-cpu-floor', 'Server CPU of an uncontended lock', SERVER_CPU, atMost(2), {
      to: rawFloor,
    }),
  ],
});

export const linger = contest({
  id: 'linger',
  title: 'One caller, the same key again and again',
  what: 'One caller takes and releases one key. With `lingerMs: 50`, the process keeps the lease, so the next call needs no round trip.',
  isQuick: true,
  contestants: [rawFloor, nestjsLocked, withLinger],
  measures: [RATE, CLIENT_CPU],
  play: ({ fleet, pace }, adapter) => fleet.apart(adapter, [['linger']], { ms: 400 * pace }),
  goals: [
    goal('linger-floor', 'Holds per second of one key with `lingerMs: 50`', RATE, atLeast(200), {
      by: withLinger,
      to: rawFloor,
    }),
  ],
});

const ACQUIRE = { id: 'acquire', name: 'acquire and release' } as const;
const WITH_LOCK = { id: 'withLock', name: 'withLock' } as const;
const LOCKED = { id: 'locked', name: '@Locked' } as const;

export const forms = contest<{ id: Form; name: string }, Round>({
  id: 'forms',
  title: 'acquire, withLock and @Locked',
  what: '64 callers on 64 keys, with each form in turn.',
  isQuick: true,
  contestants: [ACQUIRE, WITH_LOCK, LOCKED],
  measures: [RATE, CLIENT_CPU],
  play: ({ fleet, pace }, { id }) =>
    fleet.apart(nestjsLocked, ofOneEach('forms', 64), { ms: 400 * pace, form: id }),
  goals: [
    goal('forms-with-lock', 'Client CPU of `withLock`', CLIENT_CPU, atMost(1.05), {
      by: WITH_LOCK,
      to: ACQUIRE,
    }),
    goal('forms-locked', 'Client CPU of `@Locked`', CLIENT_CPU, atMost(1.05), {
      by: LOCKED,
      to: WITH_LOCK,
    }),
  ],
});

function keysOf(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, n) => `${name}:${n}`);
}

/** So many callers, each with a key of its own. */
function ofOneEach(name: string, count: number): string[][] {
  return keysOf(name, count).map((key) => [key]);
}
