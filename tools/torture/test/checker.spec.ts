import { describe, expect, it } from '@jest/globals';
import { check } from '../src/checker/check.js';
import type { Entry, Fault, KnownLease } from '../src/history/entry.js';

const LIMITS = {
  gapMs: 500,
  fairMs: 3_000,
  excusedShare: 1,
  excusedTimeShare: Infinity,
};

type Asked = Entry<'asked'>;

const ASKED: Omit<Asked, 'kind' | 'at' | 'call'> = {
  what: 'test',
  process: 'p1',
  service: 'p1.1a',
  keys: ['k'],
  waitMs: 20_000,
  leaseMs: 1_000,
  maxHoldMs: 60_000,
  renew: true,
  holdAtLeastMs: 0,
  lingerMs: 0,
};

interface HoldOptions extends Partial<Asked> {
  readonly token?: number;
  readonly tokens?: Readonly<Record<string, number>>;
  /** When it asked. @default just before it held */
  readonly askedAt?: number;
  /** How long its deadline reaches. @default its end */
  readonly validUntil?: number;
  readonly remainingMs?: number;
  readonly answer?: boolean | 'unknown' | 'unsaid';
}

/** A call that asks, holds and releases. The process is the first part of its name: `a/1` is of process a. */
function hold(call: string, from: number, to: number, options: HoldOptions = {}): Entry[] {
  const {
    token = from,
    tokens = { k: token },
    askedAt = from - 1,
    validUntil = to,
    remainingMs = 500,
    answer = true,
    ...asked
  } = options;
  return [
    ask(call, askedAt, { keys: Object.keys(tokens), ...asked }),
    { kind: 'held', at: from, call, tokens, remainingMs },
    { kind: 'valid', at: from, call, until: validUntil },
    { kind: 'ended', at: to, call },
    { kind: 'released', at: to + 1, call, answer },
  ];
}

function ask(call: string, at: number, options: Partial<Asked> = {}): Entry {
  const [process = ''] = call.split('/');
  return { kind: 'asked', at, call, ...ASKED, process, service: `${process}.1a`, ...options };
}

function refuse(call: string, at: number, code = 'LOCK_NOT_ACQUIRED', message = 'because'): Entry {
  return { kind: 'refused', at, call, code, message };
}

function lose(call: string, at: number, reason: string, key = 'k'): Entry {
  return { kind: 'lost', at, call, key, reason };
}

function without(kind: Entry['kind'], entries: readonly Entry[]): Entry[] {
  return entries.filter((entry) => entry.kind !== kind);
}

function fault(at: number, until: number, options: Partial<Fault> = {}): Entry {
  return { kind: 'fault', name: 'test', at, until, disturbs: 'nothing', ...options };
}

function wipe(at: number, until: number): Entry {
  return fault(at, until, { disturbs: 'all', forgets: 'all', notice: 'reconnect' });
}

/** At 200, a replica becomes master. Of what was granted after 150, it may know nothing. */
function promotion(leases: Readonly<Record<string, KnownLease | null>>): Entry {
  const unknownTo = { cutAt: 150, leases };
  return fault(200, 210, { forgets: { unknownTo }, notice: 'reconnect' });
}

/** A server of some keys that is away from 100 to 200, while nothing is lost. */
function away(...keys: readonly string[]): Entry {
  return fault(100, 200, { disturbs: { serverOf: keys } });
}

/** The slot of a key is moved from 100 to 200. */
function moving(key: string): Entry {
  return fault(100, 200, { disturbs: { slotOf: key } });
}

function violations(...history: (Entry | readonly Entry[])[]): string[] {
  return check(history.flat(), LIMITS).violations.map(({ text }) => text);
}

describe('the checker of torture: exclusion', () => {
  it('accepts holds that follow each other with rising tokens', () => {
    expect(violations(hold('a/1', 10, 20), hold('b/1', 21, 30))).toEqual([]);
  });

  it('sees two holders, also around a third', () => {
    const three = [hold('a/1', 10, 90), hold('b/1', 95, 99), hold('c/1', 50, 60)];
    expect(violations(...three)).toContainEqual(expect.stringMatching(/^two holders of k .*a\/1/));
  });

  it('sees each key of a call for several', () => {
    const several = hold('a/1', 10, 90, { tokens: { k: 1, m: 1 } });
    const other = hold('b/1', 50, 60, { tokens: { m: 2 } });
    expect(violations(several, other)).toEqual([expect.stringMatching(/^two holders of m/)]);
  });

  it('counts a hold until its deadline, its loss, or the end of its process only', () => {
    const lost = lose('a/1', 40, 'max-hold');
    const killed: Entry = { kind: 'killed', at: 40, process: 'a' };
    const long = { maxHoldMs: 30, validUntil: 40 };
    const ended = [hold('a/1', 10, 90, long), lost];
    const dead = [...hold('a/1', 10, 90, { validUntil: 90 }).slice(0, 3), killed];
    for (const before of [ended, dead]) {
      expect(violations(...before, hold('b/1', 500, 510))).toEqual([]);
      expect(violations(...before, hold('b/1', 39, 50))).toContainEqual(
        expect.stringMatching(/^two holders of k/),
      );
    }
  });

  it('sees a foreign client and a holder at the same time', () => {
    const foreign: Entry = {
      kind: 'foreign',
      at: 10,
      until: 40,
      call: 'foreign/1',
      key: 'k',
      leaseMs: 100,
    };
    expect(violations(foreign, hold('a/1', 41, 50))).toEqual([]);
    expect(violations(foreign, hold('a/1', 30, 50))).toEqual([
      expect.stringMatching(/^two holders of k/),
    ]);
  });
});

describe('the checker of torture: what a fault excuses', () => {
  const overlap = [hold('a/1', 10, 400), hold('b/1', 300, 500)];

  it('a wipe: the leases that existed then', () => {
    expect(violations(...overlap)).toEqual([expect.stringMatching(/^two holders/)]);
    expect(violations(...overlap, wipe(100, 150))).toEqual([]);
    expect(violations(...overlap, wipe(2, 5))).toEqual([]); // the answer was on its way
  });

  it('a wipe: not those that were granted after it', () => {
    const late = [hold('a/1', 300, 700), hold('b/1', 600, 800)];
    expect(violations(...late, wipe(10, 20))).toEqual([expect.stringMatching(/^two holders/)]);
  });

  it('a wipe: not longer than until the holder must have noticed', () => {
    const long = (until: number) => [
      hold('a/1', 10, until, { leaseMs: 6_000 }),
      hold('b/1', 1_000, until),
      wipe(100, 150),
    ];
    expect(violations(...long(1_300))).toEqual([]);
    expect(violations(...long(3_500))).toEqual([expect.stringMatching(/^two holders/)]);
  });

  it('a wipe: longer, if its process stood still', () => {
    const stalled: Entry = { kind: 'stalled', at: 3_500, since: 200, process: 'a' };
    const long = [hold('a/1', 10, 3_490, { leaseMs: 6_000 }), hold('b/1', 1_000, 3_500)];
    expect(violations(...long, wipe(100, 150), stalled)).toEqual([]);
  });

  it('a wipe: a fixed lease until its end, because nothing tells it', () => {
    const fixed = { leaseMs: 3_000, renew: false, remainingMs: 2_950 };
    const long = [hold('a/1', 10, 2_900, fixed), hold('b/1', 1_000, 2_950)];
    expect(violations(...long, wipe(100, 150))).toEqual([]);
  });

  it('a deleted key: this key alone', () => {
    const deleted = { disturbs: { key: 'k' }, forgets: { key: 'k' }, notice: 'renewal' } as const;
    const told = [hold('a/1', 10, 400, { answer: false }), hold('b/1', 300, 500)];
    expect(violations(...told, fault(100, 101, deleted))).toEqual([]);
    const other = { ...deleted, forgets: { key: 'other' } };
    expect(violations(...overlap, fault(100, 101, other))).toEqual([
      expect.stringMatching(/^two holders/),
    ]);
  });

  it('a release by an operator: longer if its message could not arrive, until the next renewal', () => {
    const key = 'k';
    const released = { disturbs: { key }, forgets: { key }, notice: 'message' } as const;
    const told = (until: number) => [
      hold('a/1', 10, until, { leaseMs: 6_000, answer: false }),
      hold('b/1', 4_020, 5_500),
      fault(3_000, 3_001, { name: 'released by an operator', ...released }),
    ];
    const silent = (at: number, until: number, silences: Fault['silences'] = 'all'): Entry =>
      fault(at, until, { silences });
    const twoHolders = [expect.stringMatching(/^two holders of k/)];
    expect(violations(...told(4_900))).toEqual(twoHolders);
    expect(violations(...told(4_900), silent(2_900, 3_900))).toEqual([]);
    expect(violations(...told(4_900), silent(1_000, 2_500))).toEqual([]); // it has to be subscribed again
    expect(violations(...told(4_900), silent(2_900, 3_900, { serverOf: ['k'] }))).toEqual([]);
    expect(violations(...told(4_900), silent(2_900, 3_900, { serverOf: ['m'] }))).toEqual(
      twoHolders,
    );
    expect(violations(...told(5_400), silent(2_900, 3_900))).toEqual(twoHolders);
    expect(violations(...told(4_900), silent(3_050, 3_900))).toEqual(twoHolders);
    expect(violations(...told(4_900), silent(500, 1_000))).toEqual(twoHolders);
    const stalled: Entry = { kind: 'stalled', at: 2_800, since: 900, process: 'a' };
    expect(violations(...told(4_900), silent(500, 1_000), stalled)).toEqual([]);
  });

  it('a restart with its data: nothing', () => {
    expect(violations(...overlap, fault(100, 150, { disturbs: 'all' }))).toEqual([
      expect.stringMatching(/^two holders/),
    ]);
  });

  it('no more than a share of all holds', () => {
    const history = [...overlap, [wipe(100, 150)]].flat();
    const { excused, violations: found } = check(history, { ...LIMITS, excusedShare: 0.5 });
    expect(excused).toBe(2);
    expect(found).toEqual([
      { rule: 'excuses', text: '2 of 2 holds were excused by faults, more than 50 %' },
    ]);
  });

  it('no more than a share of all holds, among which a crowd that gives up does not count', () => {
    const crowd = (at: number): Entry[] =>
      [1, 2, 3, 4, 5].flatMap((n) =>
        hold(`c/${at}.${n}`, at, at + 5, { tokens: { [`crowd-${n}`]: at }, what: 'crowd' }),
      );
    const limits = { ...LIMITS, excusedShare: 0.5 };
    const judged = (...history: Entry[][]) => check(history.flat(), limits).violations;
    const calm = [hold('a/8', 600, 610), hold('a/9', 620, 630)].flat();
    expect(judged(...overlap, [wipe(100, 150)], calm, crowd(95))).toEqual([]);
    expect(judged(...overlap, [wipe(100, 150)], crowd(700))).toEqual([
      { rule: 'excuses', text: '2 of 2 holds were excused by faults, more than 50 %' },
    ]);
  });
});

describe('the checker of torture: what the promotion of a replica excuses', () => {
  const twoHolders = [expect.stringMatching(/^two holders of k/)];
  const overlap = [hold('a/1', 10, 600), hold('b/1', 400, 700)];

  it('a lease that the replica did not know, or knew as that of another process', () => {
    expect(violations(...overlap)).toEqual(twoHolders);
    expect(violations(...overlap, promotion({ k: null }))).toEqual([]);
    const another = { process: 'c', until: 900 };
    expect(violations(...overlap, promotion({ k: another }))).toEqual([]);
  });

  it('a lease that the replica knew: only from the end that it knew on', () => {
    const until = (end: number): Entry => promotion({ k: { process: 'a', until: end } });
    expect(violations(...overlap, until(390))).toEqual([]);
    expect(violations(...overlap, until(500))).toEqual(twoHolders);
  });

  it('a lease that the replica knew: not even if the other holder came before all knew of it', () => {
    const early = [hold('a/1', 10, 600), hold('b/1', 205, 700)];
    expect(violations(...early, promotion({ k: null }))).toEqual([]);
    expect(violations(...early, promotion({ k: { process: 'a', until: 500 } }))).toEqual(
      twoHolders,
    );
  });

  it('a later lease of the same process, which the replica did not get', () => {
    const late = [hold('a/1', 160, 600), hold('b/1', 400, 700)];
    const first = { process: 'a', until: 500 };
    expect(violations(...late, promotion({ k: first }))).toEqual([]);
  });

  it('no other key, and not the keys of another master', () => {
    expect(violations(...overlap, promotion({ m: null }))).toEqual(twoHolders);
    const noneLost = fault(200, 210, { disturbs: { serverOf: ['k'] } });
    expect(violations(...overlap, noneLost)).toEqual(twoHolders); // a failover in order
  });

  it('no lease that was granted when all knew the new master', () => {
    const late = [hold('a/1', 400, 800), hold('b/1', 700, 900)];
    expect(violations(...late, promotion({ k: null }))).toEqual(twoHolders);
  });

  it('no longer than until the holder must have heard of it', () => {
    const long = [hold('a/1', 10, 2_000, { leaseMs: 6_000 }), hold('b/1', 400, 2_100)];
    expect(violations(...long, promotion({ k: null }))).toEqual(twoHolders);
    const stalled: Entry = { kind: 'stalled', at: 1_900, since: 150, process: 'a' };
    expect(violations(...long, promotion({ k: null }), stalled)).toEqual([]);
  });

  it('a grant of the old master to a process that stood still and could not hear of the new one', () => {
    const woken = [hold('a/1', 3_010, 3_400, { leaseMs: 500 }), hold('b/1', 2_900, 3_500)];
    expect(violations(...woken, promotion({ k: null }))).toEqual(twoHolders);
    const stalled = (since: number, at: number): Entry => ({
      kind: 'stalled',
      ...{ at, since, process: 'a' },
    });
    expect(violations(...woken, promotion({ k: null }), stalled(150, 3_005))).toEqual([]);
    // It hears of it in one of its first turns, which are long: everything was waiting for it.
    expect(violations(...woken, promotion({ k: null }), stalled(150, 2_800))).toEqual([]);
    expect(violations(...woken, promotion({ k: null }), stalled(150, 2_500))).toEqual(twoHolders);
    expect(violations(...woken, promotion({ k: null }), stalled(250, 2_800))).toEqual(twoHolders);
  });

  it('a lower token of the old master, but not one of the new master behind it', () => {
    const lower = [
      hold('a/1', 10, 300, { token: 5 }),
      hold('b/1', 400, 700, { token: 9 }),
      hold('a/2', 500, 600, { token: 6 }),
    ];
    const behind = expect.stringMatching(/^token of k did not rise/);
    expect(violations(...lower)).toContainEqual(behind);
    expect(violations(...lower, promotion({ k: null }))).toEqual([]);
    const higher = [hold('a/1', 10, 600, { token: 9 }), hold('b/1', 400, 700, { token: 5 })];
    expect(violations(...higher, promotion({ k: null }))).toEqual([behind]);
  });

  it('a lower token of the new master only if it was granted before, as one of several', () => {
    const woken: Entry[] = [
      { kind: 'stalled', at: 345, since: 150, process: 'a' },
      ...hold('a/1', 350, 380, { token: 9 }),
      promotion({ k: null, m: null }),
    ];
    const several = (askedAt: number): Entry[] =>
      hold('b/1', 400, 700, { tokens: { k: 5, m: 5 }, askedAt });
    const behind = [expect.stringMatching(/^token of k did not rise/)];
    expect(violations(woken, several(300))).toEqual([]);
    expect(violations(woken, several(360))).toEqual(behind);
    expect(violations(woken.slice(0, -1), several(300))).toEqual(behind);
  });

  it('a lease that is lost: not before the end that the replica knew', () => {
    const lost = [
      ...hold('a/1', 10, 600, { validUntil: 400, maxHoldMs: 9_000 }),
      lose('a/1', 400, 'deleted'),
    ];
    const unexplained = [expect.stringMatching(/which nothing explains/)];
    expect(violations(lost, promotion({ k: null }))).toEqual([]);
    expect(violations(lost, promotion({ k: { process: 'a', until: 300 } }))).toEqual([]);
    expect(violations(lost, promotion({ k: { process: 'a', until: 900 } }))).toEqual(unexplained);
    expect(violations(lost, promotion({ m: null }))).toEqual(unexplained);
  });

  it('a wait for a lease that was given back and is there again, until its end', () => {
    const waited = [
      hold('b/1', 90, 100),
      hold('a/1', 8_000, 8_010, { askedAt: 110 }),
      promotion({ k: { process: 'b', until: 6_400 } }),
    ];
    expect(violations(...waited)).toEqual([]);
    const none = [...waited.slice(0, 2), promotion({ k: null })];
    expect(violations(...none)).toContainEqual(expect.stringMatching(/^k was free for more than/));
  });
});

describe('the checker of torture: what trouble with one of several masters excuses', () => {
  it('a failing store: only for its keys', () => {
    const failed = [
      hold('b/1', 0, 1_100),
      ask('a/1', 1, { waitMs: 1_000 }),
      refuse('a/1', 1_001, 'LOCK_STORE_FAILED'),
    ];
    const message = [expect.stringMatching(/failed although Redis was well/)];
    for (const trouble of [away, moving]) {
      expect(violations(...failed, trouble('m', 'x'))).toEqual(message);
      expect(violations(...failed, trouble('k'))).toEqual([]);
    }
  });

  it('a store that fails at once: only when it has been away for two seconds', () => {
    const failed = (at: number): Entry[] => [
      ...hold('b/1', 0, 9_000, { tokens: { k: 1, m: 1 } }),
      ask('a/1', at - 1),
      refuse('a/1', at, 'LOCK_STORE_FAILED'),
    ];
    const early = [expect.stringMatching(/^a\/1 .* failed after 1 ms of its waitMs/)];
    const long = (key: string): Entry =>
      fault(100, 3_000, { disturbs: { serverOf: [key] }, healingMs: 5_000 });
    expect(violations(failed(2_200), long('k'))).toEqual([]);
    expect(violations(failed(4_000), long('k'))).toEqual([]); // it has to be connected again
    expect(violations(failed(2_000), long('k'))).toEqual(early);
    expect(violations(failed(5_000), long('k'))).toEqual(early);
    expect(violations(failed(2_200), long('m'))).toEqual([
      expect.stringMatching(/failed although Redis was well/),
    ]);
    const stalled = (since: number): Entry => {
      return { kind: 'stalled', at: 2_000, since, process: 'a' };
    };
    expect(violations(failed(2_000), long('k'), stalled(900))).toEqual([]);
    expect(violations(failed(2_000), long('k'), stalled(1_100))).toEqual(early);
    const again = (from: number): Entry =>
      fault(from, 6_000, { disturbs: 'all', healingMs: 5_000 });
    expect(violations(failed(6_000), long('k'), again(4_200))).toEqual([]); // no time to connect
    expect(violations(failed(6_000), long('k'), again(4_300))).toEqual(early);
  });

  it('a store that fails: longer if its process stood still and could not connect again', () => {
    const trouble = fault(100, 3_000, { disturbs: 'all' });
    const failed = [
      ask('a/1', 2_900, { waitMs: 4_000 }),
      refuse('a/1', 6_950, 'LOCK_STORE_FAILED'),
    ];
    const stalled = (process: string, until: number): Entry => {
      return { kind: 'stalled', at: until, since: 2_950, process };
    };
    const message = [expect.stringMatching(/failed although Redis was well/)];
    const judged = (...more: Entry[]) => violations(hold('c/1', 0, 9_000), trouble, failed, more);
    expect(judged()).toEqual(message);
    expect(judged(stalled('a', 6_000))).toEqual([]); // it has had no time to connect again
    expect(judged(stalled('b', 6_000))).toEqual(message);
    expect(judged(stalled('a', 5_000))).toEqual(message);
  });

  it('a store that fails at once: longer if its process stood still and could not connect again', () => {
    const long = fault(100, 3_000, { disturbs: 'all', healingMs: 5_000 });
    const failed = [
      ...hold('b/1', 0, 9_000),
      ask('a/1', 6_999),
      refuse('a/1', 7_000, 'LOCK_STORE_FAILED'),
    ];
    const early = [expect.stringMatching(/^a\/1 .* failed after 1 ms of its waitMs/)];
    const stalled = (process: string, until: number): Entry => {
      return { kind: 'stalled', at: until, since: 2_900, process };
    };
    // Not so late that this alone would explain it.
    expect(violations(long, failed, stalled('a', 5_900))).toEqual([]);
    expect(violations(long, failed, stalled('b', 5_900))).toEqual(early);
    expect(violations(long, failed, stalled('a', 5_600))).toEqual(early);
  });

  it('a wait for a key that is free: only for its keys, and not for long', () => {
    const waited = (until: number) => [
      hold('b/1', 80, 90),
      hold('a/1', until, until + 10, { askedAt: 95 }),
    ];
    const message = [expect.stringMatching(/^k was free for more than 500 ms/)];
    for (const trouble of [away, moving]) {
      expect(violations(...waited(2_000), trouble('k'))).toEqual([]);
      expect(violations(...waited(2_000), trouble('m'))).toEqual(message);
      expect(violations(...waited(6_000), trouble('k'))).toContainEqual(message[0]);
    }
  });

  it('a lease that is lost: not while a slot is moved', () => {
    const lost = [...hold('a/1', 10, 300, { validUntil: 250 }), lose('a/1', 250, 'expired')];
    const unexplained = [expect.stringMatching(/which nothing explains/)];
    expect(violations(lost, away('k'))).toEqual([]);
    expect(violations(lost, away('m'))).toEqual(unexplained);
    expect(violations(lost, moving('k'))).toEqual(unexplained);
  });

  it('a key that an application left behind when it closed beside a server that did not answer', () => {
    const services = ['c.1a'];
    const left = (trouble: Entry): Entry[] => [
      ask('c/1', 90, { leaseMs: 6_000 }),
      refuse('c/1', 160, 'LOCK_ABORTED'),
      { kind: 'closing', at: 150, process: 'c', services, shutdownMs: 20 },
      { kind: 'closed', at: 170, process: 'c', services },
      trouble,
    ];
    const waited = hold('a/1', 6_190, 6_200, { askedAt: 95 });
    expect(violations(left(away('k')), waited)).toEqual([]);
    const message = expect.stringMatching(/^k was free for more than 500 ms/);
    expect(violations(left(away('m')), waited)).toContainEqual(message);
    expect(violations(away('k'), waited)).toContainEqual(message);
    const late = hold('a/1', 9_000, 9_010, { askedAt: 95 });
    expect(violations(left(away('k')), late)).toContainEqual(message);
  });

  it('a lease that is lost: if its process stood still for long, not for a moment', () => {
    const lost = [...hold('a/1', 10, 900, { validUntil: 850 }), lose('a/1', 850, 'expired')];
    const stalled = (ms: number): Entry => {
      return { kind: 'stalled', at: 700, since: 700 - ms, process: 'a' };
    };
    expect(violations(lost, stalled(600))).toEqual([]);
    // It is renewed when a third is over, and the answer has come while the process stood still.
    for (const ms of [40, 400]) {
      expect(violations(lost, stalled(ms))).toEqual([
        expect.stringMatching(/which nothing explains/),
      ]);
    }
  });

  it('a lease that is lost unrenewed: if its process stood still for half of what was left of it', () => {
    const handedOver = { leaseMs: 2_500, remainingMs: 788, validUntil: 798 };
    const lost = [...hold('a/1', 10, 900, handedOver), lose('a/1', 815, 'expired')];
    const stalled = (ms: number, process = 'a'): Entry => {
      return { kind: 'stalled', at: 812, since: 812 - ms, process };
    };
    const unexplained = [expect.stringMatching(/^a\/1 lost k .* which nothing explains/)];
    expect(violations(lost, stalled(797))).toEqual([]);
    expect(violations(lost, stalled(380))).toEqual(unexplained);
    expect(violations(lost, stalled(797, 'b'))).toEqual(unexplained);
    // If it was renewed, the whole of it was left.
    const renewed: Entry = { kind: 'valid', at: 14, call: 'a/1', until: 814 };
    expect(violations(lost, stalled(797), renewed)).toEqual(unexplained);
    const joined = hold('a/2', 11, 14, { token: 10, parent: 'a/1', validUntil: 814 });
    expect(violations(lost, stalled(797), joined)).toEqual(unexplained);
  });

  it('a lease that is lost on a slow link: only one that is too short for it', () => {
    const lost = [...hold('a/1', 10, 900, { validUntil: 850 }), lose('a/1', 850, 'expired')];
    const slow = (keepsLeasesFromMs: number): Entry =>
      fault(100, 800, { disturbs: 'all', keepsLeasesFromMs });
    expect(violations(lost, slow(1_001))).toEqual([]);
    expect(violations(lost, slow(1_000))).toEqual([
      expect.stringMatching(/which nothing explains/),
    ]);
  });

  it('two holders: never', () => {
    const overlap = [hold('a/1', 10, 400), hold('b/1', 300, 500)];
    for (const trouble of [away, moving]) {
      expect(violations(...overlap, trouble('k'))).toEqual([
        expect.stringMatching(/^two holders of k/),
      ]);
    }
  });
});

describe('the checker of torture: what the clocks of a process excuse', () => {
  const suspended = fault(100, 3_000, { forgets: { process: 'a' }, notice: 'waking' });
  const sleeper = (until: number): Entry[] => hold('a/1', 50, until, { leaseMs: 2_000 });

  it('a suspend: the leases of that process, until it has noticed', () => {
    expect(violations(suspended, sleeper(4_000), hold('b/1', 2_000, 2_010))).toEqual([]);
    expect(violations(suspended, sleeper(4_000), hold('b/1', 3_900, 3_910))).toEqual([]);
    expect(violations(suspended, sleeper(5_000), hold('b/1', 4_500, 4_510))).toContainEqual(
      expect.stringMatching(/^two holders of k/),
    );
  });

  it('a suspend: also of a process that could not say any more until when it has its lease', () => {
    const held = without('valid', hold('a/1', 98, 3_100, { leaseMs: 2_000, answer: false }));
    const lost = lose('a/1', 3_010, 'deleted');
    expect(violations(suspended, ...held, lost)).toEqual([]);
    expect(violations(...held, lost)).toEqual([expect.stringMatching(/lost k \(deleted\)/)]);
  });

  it('a suspend: not the leases of another process, and not a later one', () => {
    const awake = hold('c/1', 50, 2_500);
    expect(violations(suspended, awake, hold('b/1', 2_000, 2_010))).toContainEqual(
      expect.stringMatching(/^two holders of k/),
    );
    const later = hold('a/2', 3_200, 3_900);
    expect(violations(suspended, later, hold('b/1', 3_500, 3_510))).toContainEqual(
      expect.stringMatching(/^two holders of k/),
    );
  });

  it('a suspend: a fixed lease and maxHoldMs, which are over when they are over for the process', () => {
    const fixed = { renew: false, leaseMs: 1_000, remainingMs: 1_000, validUntil: 3_900 };
    const long = hold('a/1', 50, 3_900, fixed);
    expect(violations(suspended, long)).toEqual([]);
    expect(violations(long)).toEqual([expect.stringMatching(/its fixed lease is 1000/)]);
  });

  it('a step of the wall clock: nothing', () => {
    const step = fault(100, 110, { name: 'clock of a worker stepped' });
    const lost = [...hold('a/1', 10, 900, { validUntil: 850 }), lose('a/1', 850, 'expired')];
    expect(violations(step, lost)).toEqual([expect.stringMatching(/which nothing explains/)]);
  });
});

describe('the checker of torture: the time that is excused', () => {
  it('is counted by fault and key, from the fault until everything goes on as before', () => {
    const paused = fault(100, 200, { name: 'paused', disturbs: { serverOf: ['a'] } });
    const deleted = fault(300, 300, {
      name: 'deleted',
      disturbs: { key: 'b' },
      healingMs: 1_000,
    });
    const calls = ['a', 'b', 'w1'].flatMap((key, n) =>
      hold(`${n}/1`, 10, 10_000, { tokens: { [key]: 1 } }),
    );
    const { excusedTime } = check([paused, deleted, calls].flat(), LIMITS);
    expect(excusedTime).toMatchObject({
      byCause: { paused: { a: 3_600 }, deleted: { b: 1_000 } },
      byKey: { a: 3_600, b: 1_000, w1: 0 },
    });
  });

  it('leaves a share of the run to be judged', () => {
    const paused = fault(100, 200, { disturbs: 'all' });
    const history = [paused, ...hold('a/1', 10, 4_010, { tokens: { a: 1 } })];
    const texts = (excusedTimeShare: number): string[] =>
      check(history, { ...LIMITS, excusedTimeShare }).violations.map(({ text }) => text);
    expect(texts(0.95)).toEqual([]);
    expect(texts(0.8)).toContain('waits for a were excused for 90 % of the time, more than 80 %');
  });

  it('is told of holders that were beside each other, as well', () => {
    const { excusedOverlaps } = check(
      [wipe(40, 60), hold('a/1', 10, 90), hold('b/1', 70, 200)].flat(),
      LIMITS,
    );
    expect(excusedOverlaps).toEqual({ k: 20 });
  });
});

describe('the checker of torture: fencing tokens', () => {
  it('must rise', () => {
    const holds = [hold('a/1', 10, 20, { token: 5 }), hold('b/1', 21, 30, { token: 4 })];
    expect(violations(...holds)).toEqual([expect.stringMatching(/^token of k did not rise/)]);
  });

  it('are never the same twice', () => {
    const holds = [hold('a/1', 10, 20, { token: 5 }), hold('b/1', 21, 30, { token: 5 })];
    expect(violations(...holds)).toEqual([expect.stringMatching(/^token of k did not rise/)]);
    expect(violations(...holds, wipe(15, 18))).not.toEqual([]);
  });

  it('may come behind a newer one only from a lease that Redis forgot', () => {
    const forgotten = [
      hold('a/1', 10, 100, { token: 5 }),
      hold('b/1', 200, 400, { token: 9 }),
      hold('a/2', 300, 350, { token: 6 }),
    ];
    expect(violations(...forgotten, wipe(50, 60))).toEqual([]);
    const fresh = hold('a/2', 450, 460, { token: 8 });
    expect(violations(...forgotten, wipe(50, 60), fresh)).toEqual([
      expect.stringMatching(/^token of k did not rise: b\/1 had 9, a\/2 after it 8/),
    ]);
  });
});

describe('the checker of torture: calls inside of calls', () => {
  const root = hold('a/1', 10, 100, { token: 1 });
  const inside = (call: string, from: number, to: number, options: HoldOptions = {}) =>
    hold(call, from, to, { token: 1, parent: 'a/1', ...options });

  it('share the hold of their root, one after the other', () => {
    expect(violations(root, inside('a/2', 20, 40), inside('a/3', 41, 60))).toEqual([]);
  });

  it('take turns', () => {
    expect(violations(root, inside('a/2', 20, 40), inside('a/3', 39, 60))).toEqual([
      expect.stringMatching(/^two branches of a\/1 have k at the same time/),
    ]);
  });

  it('may outlive their root, which keeps the key', () => {
    const outliving = inside('a/2', 50, 300);
    expect(violations(root, outliving)).toEqual([]);
    expect(violations(root, outliving, hold('b/1', 200, 220))).toEqual([
      expect.stringMatching(/^two holders of k/),
    ]);
  });

  it('never share a hold with strangers', () => {
    expect(violations(root, hold('a/2', 20, 40, { token: 1 }))).toEqual([
      expect.stringMatching(/^a\/2 and a\/1 share a hold of k/),
    ]);
  });

  it('do not join a hold after its loss, and are told of it', () => {
    const short = [hold('a/1', 10, 300, { token: 1, maxHoldMs: 90, validUntil: 100 })].flat();
    const lost = [...short, lose('a/1', 100, 'max-hold')];
    expect(violations(lost, inside('a/2', 50, 90))).toEqual([]);
    expect(violations(lost, inside('a/2', 120, 130))).toEqual([
      expect.stringMatching(/^a\/2 joined a hold of k 20.0 ms after its loss/),
    ]);
    expect(violations(lost, inside('a/2', 50, 290))).toContainEqual(
      expect.stringMatching(/^a\/2 was not told of the loss of k/),
    );
  });

  it('get several keys in the moment in which the hold of one is lost only if they are told of both', () => {
    const lost = [
      ...hold('a/1', 10, 300, { token: 1, maxHoldMs: 90, validUntil: 100 }),
      lose('a/1', 100, 'max-hold'),
    ];
    const several = (call: string, from: number): Entry[] =>
      hold(call, from, 290, {
        tokens: { k: 1, m: 7 },
        parent: 'a/1',
        askedAt: 50,
        validUntil: 99,
        remainingMs: 0,
      });
    const told = (at: number): Entry => lose('a/2', at, 'max-hold');
    const joined = expect.stringMatching(/^a\/2 joined a hold of k/);
    expect(violations(lost, several('a/2', 100.2), told(100.3))).toEqual([]);
    expect(violations(lost, several('a/2', 100.2))).toContainEqual(joined);
    expect(violations(lost, several('a/2', 140), told(140.1))).toContainEqual(joined);
  });
});

describe('the checker of torture: the terms of a hold', () => {
  it('begins while it is held', () => {
    const over = hold('a/1', 10, 20, { remainingMs: 0, validUntil: 9 });
    expect(violations(over)).toEqual([expect.stringMatching(/^a\/1 .* when that was over/)]);
    const stalled: Entry = { kind: 'stalled', at: 9, since: 1, process: 'a' };
    expect(violations(over, stalled)).toEqual([]);
  });

  it('ends after maxHoldMs', () => {
    expect(violations(hold('a/1', 10, 600, { maxHoldMs: 200 }))).toEqual([
      expect.stringMatching(/^a\/1 had k for 590 ms, its maxHoldMs is 200/),
    ]);
  });

  it('ends with a fixed lease, unless that was prolonged', () => {
    const fixed = hold('a/1', 10, 900, { renew: false, leaseMs: 500, remainingMs: 495 });
    expect(violations(fixed)).toEqual([expect.stringMatching(/its fixed lease is 500/)]);
    expect(violations(fixed, { kind: 'ensured', at: 20, call: 'a/1', ms: 800 })).toEqual([]);
    const joined = hold('a/2', 20, 30, { token: 10, parent: 'a/1' });
    expect(violations(fixed, joined)).toEqual([expect.stringMatching(/its fixed lease is 500/)]);
    expect(violations(fixed, joined, { kind: 'ensured', at: 25, call: 'a/2', ms: 800 })).toEqual(
      [],
    );
  });

  it('has the length of its fixed lease at the start', () => {
    const short = hold('a/1', 10, 300, { renew: false, leaseMs: 5_000, remainingMs: 2_770 });
    expect(violations(short)).toEqual(['a/1 asked for a fixed lease of 5000 ms of k and got 2770']);
    expect(violations(short, fault(0, 8, { disturbs: 'all' }))).toEqual([]);
  });

  it('has at least half of its fixed lease at the start, unless its process stood still just then', () => {
    const short = hold('a/1', 1_010, 1_300, { renew: false, leaseMs: 5_000, remainingMs: 2_000 });
    const tooShort = ['a/1 asked for a fixed lease of 5000 ms of k and got 2000'];
    const stalled = (since: number, at: number): Entry => ({
      kind: 'stalled',
      ...{ at, since, process: 'a' },
    });
    expect(violations(short, stalled(500, 1_009))).toEqual(tooShort);
    expect(violations(short, stalled(900, 1_020))).toEqual(tooShort);
    expect(violations(short, stalled(500, 1_020))).toEqual([]);
  });

  it('is lost for a reason', () => {
    const lost = (reason: string, at: number) => [
      ...hold('a/1', 10, 300, { maxHoldMs: 200, validUntil: at }),
      lose('a/1', at, reason),
    ];
    const unexplained = expect.stringMatching(/which nothing explains/);
    expect(violations(lost('max-hold', 210))).toEqual([]);
    expect(violations(lost('max-hold', 100))).toEqual([unexplained]);
    expect(violations(lost('shutdown', 100))).toEqual([unexplained]);
    expect(violations(lost('deleted', 100))).toEqual([unexplained]);
    expect(violations(lost('deleted', 100), wipe(50, 60))).toEqual([]);
    expect(violations(lost('expired', 100))).toEqual([unexplained]);
    expect(violations(lost('expired', 100), fault(50, 60, { disturbs: 'all' }))).toEqual([]);
  });

  it('has ended maxHoldMs after it began, which a process that stood still was told later', () => {
    const short = [
      ...hold('a/1', 110, 400, { maxHoldMs: 200, validUntil: 210 }),
      lose('a/1', 210, 'max-hold'),
    ];
    const stalled: Entry = { kind: 'stalled', at: 110, since: 5, process: 'a' };
    expect(violations(short)).toEqual([expect.stringMatching(/which nothing explains/)]);
    expect(violations(short, stalled)).toEqual([]);
  });

  it('is not said to be released when it had been taken away', () => {
    const deleted = fault(100, 101, { disturbs: { key: 'k' }, forgets: { key: 'k' } });
    expect(violations(hold('a/1', 10, 400), deleted)).toEqual([
      expect.stringMatching(/^the release of k by a\/1 was answered with true/),
    ]);
    expect(violations(hold('a/1', 10, 400, { answer: false }), deleted)).toEqual([]);
  });

  it('is not said to be released by its process, unless that repeated the command over a new connection', () => {
    const deleted = fault(100, 101, { disturbs: { key: 'k' }, forgets: { key: 'k' } });
    const cut = fault(200, 201, { disturbs: 'all' });
    const suspended = (process: string): Entry[] => [
      fault(50, 6_000, { forgets: { process }, notice: 'waking' }),
      { kind: 'stalled', at: 6_000, since: 50, process },
    ];
    const released = hold('a/1', 10, 6_001, { renew: false, validUntil: 300 });
    const taken = expect.stringMatching(/^the release of k by a\/1 was answered with true/);
    expect(violations(released, deleted, suspended('a'))).toContainEqual(taken);
    expect(violations(released, deleted, cut, suspended('b'))).toContainEqual(taken);
    expect(violations(released, deleted, cut, suspended('a'))).not.toContainEqual(taken);
  });

  it('is kept for holdAtLeastMs', () => {
    const kept = hold('a/1', 10, 20, { holdAtLeastMs: 500 });
    expect(violations(kept, hold('b/1', 515, 520))).toEqual([]);
    expect(violations(kept, hold('b/1', 300, 320))).toEqual([
      'b/1 got k 210 ms before the end of holdAtLeastMs of a/1',
    ]);
    const deleted = fault(100, 101, { disturbs: { key: 'k' }, forgets: { key: 'k' } });
    expect(violations(kept, hold('b/1', 300, 320), deleted)).toEqual([]);
  });

  it('is passed to nobody after maxHoldMs while its work runs', () => {
    const wedged = [
      ...hold('a/1', 10, 800, { maxHoldMs: 100, validUntil: 110 }),
      lose('a/1', 110, 'max-hold'),
    ];
    expect(violations(wedged, hold('b/1', 600, 620))).toEqual([]);
    expect(violations(wedged, hold('a/2', 111, 120))).toEqual([
      expect.stringMatching(/^a\/2 got k 1.0 ms after maxHoldMs of a\/1, whose work still ran/),
    ]);
  });

  it('is seen by inspect()', () => {
    const look = (found: 'nobody' | 'this process'): Entry => {
      return { kind: 'inspected', at: 50, since: 49, call: 'a/1', key: 'k', found };
    };
    expect(violations(hold('a/1', 10, 90), look('this process'))).toEqual([]);
    expect(violations(hold('a/1', 10, 90), look('nobody'))).toEqual([
      'a/1 held k while inspect() said that nobody has it',
    ]);
  });
});

describe('the checker of torture: answers', () => {
  it('come at all', () => {
    expect(violations(ask('a/1', 1))).toEqual(['a/1 (test) for k was never answered']);
    expect(violations(ask('a/1', 1), { kind: 'killed', at: 5, process: 'a' })).toEqual([]);
  });

  it('come within waitMs and a second', () => {
    const busy = hold('b/1', 0, 9_000);
    const refused = (at: number) => [ask('a/1', 1, { waitMs: 2_000 }), refuse('a/1', at)];
    expect(violations(busy, refused(3_000))).toEqual([]);
    expect(violations(busy, refused(6_000))).toContain(
      'a/1 (test) for k was answered after 5999 ms, its waitMs is 2000',
    );
  });

  it('see an abort', () => {
    const busy = hold('b/1', 0, 900);
    const aborted = (at: number): Entry[] => [
      ask('a/1', 1),
      { kind: 'aborted', at: 50, call: 'a/1' },
      refuse('a/1', at, 'LOCK_ABORTED'),
    ];
    expect(violations(busy, aborted(60))).toEqual([]);
    expect(violations(busy, aborted(800))).toEqual([
      expect.stringMatching(/^a\/1 .* did not see the abort of its signal: answered 750 ms later/),
    ]);

    // One that is killed right after it stood still has no time to say so.
    const killed = (at: number): Entry => ({ kind: 'killed', at, process: 'a' });
    expect(violations(busy, aborted(800), killed(900))).toEqual([]);
    expect(violations(busy, aborted(800), killed(1_200))).toHaveLength(1);
  });

  it('say that a call was aborted only if it was, or its application closed', () => {
    const aborted = [ask('a/1', 1), refuse('a/1', 9, 'LOCK_ABORTED')];
    const closing: Entry = {
      kind: 'closing',
      at: 5,
      process: 'a',
      services: ['a.1a'],
      shutdownMs: 100,
    };
    const closed: Entry = { kind: 'closed', at: 20, process: 'a', services: ['a.1a'] };
    expect(violations(aborted)).toEqual([expect.stringMatching(/^a\/1 .* was aborted although/)]);
    expect(violations(aborted, closing, closed)).toEqual([]);
  });

  it('of a single try: busy only if somebody has the key', () => {
    const tried = [ask('a/1', 500, { waitMs: 0 }), refuse('a/1', 501)];
    const message = 'a/1 (test) for k was refused as busy although nobody had it';
    expect(violations(tried)).toEqual([message]);
    expect(violations(tried, hold('b/1', 300, 600))).toEqual([]);
    expect(violations(tried, hold('b/1', 100, 200))).toEqual([message]);
    expect(violations(tried, hold('b/1', 100, 200, { lingerMs: 1_000 }))).toEqual([]);
    expect(violations(tried, hold('b/1', 100, 200, { holdAtLeastMs: 1_000 }))).toEqual([]);
  });

  it('of a single try: a failing try of several keys is no reason', () => {
    const tried = [ask('a/1', 500, { waitMs: 0 }), refuse('a/1', 501)];
    const several = [ask('b/1', 499, { waitMs: 0, keys: ['k', 'm'] }), refuse('b/1', 502)];
    const busy = hold('c/1', 400, 600, { tokens: { m: 1 } });
    expect(violations(tried, several, busy)).toEqual([
      expect.stringMatching(/^a\/1 .* was refused as busy although nobody had it/),
    ]);
  });

  it('of a single try: what an aborted call had got of several keys, until its process goes on', () => {
    const tried = [ask('a/1', 1_000, { waitMs: 0 }), refuse('a/1', 1_001)];
    const aborted = (at: number): Entry[] => [
      ask('b/1', 700, { keys: ['k', 'm'] }),
      { kind: 'aborted', at, call: 'b/1' },
      refuse('b/1', at, 'LOCK_ABORTED'),
    ];
    const stalled: Entry = { kind: 'stalled', at: 940, since: 800, process: 'b' };
    expect(violations(tried, aborted(790), stalled)).toEqual([]);
    const ofAnother: Entry = { ...stalled, process: 'c' };
    for (const history of [aborted(790), [...aborted(790), ofAnother]]) {
      expect(violations(tried, history)).toEqual([
        expect.stringMatching(/^a\/1 .* was refused as busy although nobody had it/),
      ]);
    }
  });

  it('of a store that failed: not because the process itself stood still', () => {
    const failed = [ask('a/1', 10, { waitMs: 0 }), refuse('a/1', 1_500, 'LOCK_STORE_FAILED')];
    const stalled: Entry = { kind: 'stalled', at: 1_490, since: 20, process: 'a' };
    expect(violations(failed, stalled)).toEqual([
      expect.stringMatching(/failed although Redis was well/),
    ]);
  });

  it('of a store that failed: if the process stood still for half of its lease, and says so', () => {
    const failed = (leaseMs: number): Entry[] => [
      ask('a/1', 1_100, { leaseMs }),
      refuse('a/1', 1_500, 'LOCK_STORE_FAILED', 'it took 600 ms, or this process stood still'),
    ];
    const stalled: Entry = { kind: 'stalled', at: 1_400, since: 800, process: 'a' };
    const wrong = [expect.stringMatching(/failed although Redis was well/)];
    expect(violations(failed(1_000), stalled)).toEqual([]);
    expect(violations(failed(1_000))).toEqual(wrong);
    expect(violations(failed(1_300), stalled)).toEqual(wrong);
  });

  it('of a store that failed: only if Redis was in trouble, and not before the end of the wait', () => {
    const failed = (at: number) => [
      ...hold('b/1', 0, 1_100),
      ask('a/1', 1, { waitMs: 1_000 }),
      refuse('a/1', at, 'LOCK_STORE_FAILED'),
    ];
    const trouble = fault(100, 200, { disturbs: 'all' });
    expect(violations(failed(1_001))).toEqual([
      expect.stringMatching(/failed although Redis was well/),
    ]);
    expect(violations(failed(1_001), trouble)).toEqual([]);
    expect(violations(failed(300), trouble)).toEqual([
      expect.stringMatching(/^a\/1 .* failed after 299 ms of its waitMs 1000/),
    ]);
  });
});

describe('the checker of torture: waits', () => {
  it('no longer for a key that is free', () => {
    const waited = hold('a/1', 2_000, 2_010, { askedAt: 1_000 });
    const message = expect.stringMatching(/^k was free for more than 500 ms/);
    expect(violations(hold('b/1', 900, 950), waited)).toEqual([message]);
    expect(violations(hold('b/1', 900, 1_950), waited)).toEqual([]);
    expect(
      violations(hold('b/1', 900, 950), waited, fault(990, 1_100, { disturbs: 'all' })),
    ).toEqual([]);
    const dead: Entry[] = [
      ...hold('b/1', 900, 950).slice(0, 3),
      { kind: 'killed', at: 960, process: 'b' },
    ];
    expect(violations(dead, waited)).toEqual([]);
  });

  it('for a key that somebody has unseen, while it waits for one that a third has unseen, and so on', () => {
    const first = hold('b/1', 2_000, 2_010, { askedAt: 1_000, tokens: { m: 1, x: 1 } });
    const second = hold('c/1', 2_100, 2_110, { askedAt: 1_000, tokens: { l: 1, m: 2 } });
    const third = hold('d/1', 2_200, 2_210, { askedAt: 1_000, tokens: { k: 1, l: 2 } });
    const waited = hold('a/1', 2_300, 2_310, { askedAt: 1_000, tokens: { k: 2 } });
    const moved = (key: string): Entry => fault(990, 2_000, { disturbs: { slotOf: key } });
    const chain = [first, second, third, waited];
    expect(violations(...chain, moved('x'))).toEqual([]);
    expect(violations(...chain, moved('y'))).not.toEqual([]);
    expect(violations(first, waited, moved('x'))).not.toEqual([]);
  });

  it('for a key that may be with a process that stood still until it was killed', () => {
    const waited = hold('a/1', 2_600, 2_610, { askedAt: 1_000 });
    const killed: Entry[] = [ask('c/1', 1_000), { kind: 'killed', at: 2_500, process: 'c' }];
    expect(violations(killed, waited)).toEqual([]);
    const lively = ask('c/2', 2_000, { keys: ['m'] });
    const message = expect.stringMatching(/^k was free for more than 500 ms/);
    expect(violations(killed, lively, waited)).toContainEqual(message);
  });

  it('for a key whose unused lease a process kept when it was killed', () => {
    const kept = (lingerMs: number): Entry[] => [
      ...hold('b/1', 900, 950, { lingerMs }),
      { kind: 'killed', at: 1_100, process: 'b' },
    ];
    const waited = hold('a/1', 2_000, 2_010, { askedAt: 1_050 });
    const message = expect.stringMatching(/^k was free for more than 500 ms/);
    expect(violations(kept(0), waited)).toEqual([message]);
    expect(violations(kept(1_500), waited)).toEqual([]);
  });

  it('for several keys, one of which somebody has', () => {
    const both = hold('a/1', 3_000, 3_010, { askedAt: 1_000, tokens: { k: 90, m: 90 } });
    const one = hold('b/1', 900, 2_950, { tokens: { m: 80 } });
    expect(violations(both, one)).toEqual([]);
  });

  it('for a key that somebody has unseen, while it waits for its other keys', () => {
    const both = hold('a/1', 3_000, 3_010, { askedAt: 1_000, tokens: { k: 90, m: 90 } });
    const one = hold('b/1', 900, 2_950, { tokens: { m: 80 } });
    const third = hold('c/1', 3_020, 3_030, { askedAt: 1_200, tokens: { k: 99 } });
    expect(violations(both, one, third)).toEqual([]);
  });

  it('and not without end for a key that goes from hand to hand', () => {
    const others = Array.from({ length: 50 }, (_, n) => hold(`b/${n}`, n * 100, n * 100 + 95));
    const starved = hold('a/1', 5_000, 5_010, { askedAt: 1 });
    expect(violations(...others, starved)).toEqual([expect.stringMatching(/^a\/1 .* starved/)]);
  });

  it('but long behind those who asked before it, and not behind one who asked later', () => {
    const waited = hold('a/1', 5_010, 5_020, { askedAt: 100 });
    expect(violations(hold('b/1', 50, 5_000), waited)).toEqual([]);
    const later = hold('c/1', 1_010, 5_000, { askedAt: 999 });
    expect(violations(hold('b/1', 50, 1_000), later, waited)).toEqual([
      expect.stringMatching(/^a\/1 .* starved/),
    ]);
    const earlier = hold('c/1', 1_010, 5_000, { askedAt: 99 });
    expect(violations(hold('b/1', 50, 1_000), earlier, waited)).toEqual([]);
  });

  it('for several keys in their order: behind those who asked for a key before it had the one before', () => {
    // While b/1 waits for z, it has m.
    const served = [
      hold('e/1', 990, 2_490, { tokens: { m: 1 } }),
      hold('d/1', 900, 5_995, { tokens: { z: 1 } }),
      hold('b/1', 6_000, 6_010, { askedAt: 2_500, tokens: { m: 2, z: 2 } }),
      hold('a/1', 6_020, 6_030, { askedAt: 1_000, tokens: { k: 2, m: 3 } }),
    ];
    const first = (until: number): Entry[] => hold('c/1', 900, until, { tokens: { k: 1 } });
    expect(violations(...served, first(2_600))).toEqual([]);
    expect(violations(...served, first(1_050))).toEqual([
      expect.stringMatching(/^a\/1 .* starved: it waited for k\+m/),
    ]);
  });

  it('for several keys in their order: not without end while one of them goes from hand to hand', () => {
    const both = hold('a/1', 6_000, 6_010, { askedAt: 1, tokens: { k: 99_999, m: 99_999 } });
    for (const key of ['k', 'm']) {
      const others = Array.from({ length: 60 }, (_, n) =>
        hold(`b/${n}`, n * 100, n * 100 + 95, { tokens: { [key]: n } }),
      );
      expect(violations(...others, both)).toEqual([expect.stringMatching(/^a\/1 .* starved/)]);
    }
  });
});

describe('the checker of torture: a call for several keys', () => {
  // It may have had k from 1,700 on, and lost it again.
  const history = (stalledMs: number, leaseMs = 900): Entry[] => [
    ...hold('c/1', 900, 1_700),
    ...hold('b/1', 1_800, 8_000, { askedAt: 1_790 }),
    ...hold('a/1', 8_010, 8_020, { askedAt: 1_000, tokens: { k: 9_000, m: 9_000 }, leaseMs }),
    { kind: 'stalled', at: 1_710 + stalledMs, since: 1_710, process: 'a' },
  ];
  const starved = expect.stringMatching(/^a\/1 .* starved: it waited for k\+m/);

  it('is behind those who have come to its first key, if its process has stood still for so long that it lost it', () => {
    expect(violations(history(1_000))).toEqual([]);
  });

  it('and otherwise comes before them', () => {
    expect(violations(history(200))).toEqual([starved]);
    expect(violations(history(1_000, 3_000))).toEqual([starved]);
  });
});

describe('the checker of torture: processes', () => {
  it('see what is wrong in itself', () => {
    expect(violations({ kind: 'wrong', at: 1, process: 'a', what: 'a warning' })).toEqual([
      'a: a warning',
    ]);
  });

  it('end by themselves, with exit code 0, after everything was closed', () => {
    const exit = (code: number | null, wasClosed: boolean): Entry => {
      return { kind: 'exited', at: 9, process: 'a', code, wasClosed };
    };
    expect(violations(exit(0, true))).toEqual([]);
    expect(violations(exit(1, true))).toEqual(['a ended with exit code 1']);
    expect(violations(exit(0, false))).toEqual(['a ended before its work was done']);
    expect(violations(exit(null, true))).toEqual(['a did not finish in time and was ended']);
  });

  it('close in time', () => {
    const services = ['a.1a'];
    const closing: Entry = { kind: 'closing', at: 0, process: 'a', services, shutdownMs: 1_000 };
    const closed = (at: number): Entry => ({ kind: 'closed', at, process: 'a', services });
    expect(violations(closing, closed(1_500))).toEqual([]);
    expect(violations(closing, closed(9_000))).toEqual([
      'a took 9000 ms to close, with a shutdownMs of 1000',
    ]);
    expect(violations(closing)).toEqual(['a did not close a.1a']);
  });

  it('end what they began', () => {
    expect(violations(hold('a/1', 1, 5).slice(0, 3))).toEqual(['a/1 never ended its hold']);
    expect(violations(without('released', hold('a/1', 1, 5)))).toEqual([
      'a/1 never ended its release',
    ]);
  });
});
