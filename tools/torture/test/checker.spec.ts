import { describe, expect, it } from '@jest/globals';
import { check, type Verdict } from '../src/checker/check.js';
import type { CheckLimits } from '../src/checker/facts.js';
import { read } from './histories.js';

const LIMITS: CheckLimits = {
  gapMs: 500,
  fairMs: 3_000,
  excusedShare: 1,
  excusedTimeShare: Infinity,
  plannedTimeShare: Infinity,
};

/** What the checker says of a history. */
function judged(history: readonly string[], limits: Partial<CheckLimits> = {}): Verdict {
  return check(read(...history), { ...LIMITS, ...limits });
}

/** What is wrong with a history. */
function violations(...history: readonly string[]): string[] {
  return judged(history).violations.map(({ text }) => text);
}

/** Nothing is wrong with the history. */
function clean(...history: readonly string[]): void {
  expect(violations(...history)).toEqual([]);
}

/** One thing is wrong with the history. */
function finds(what: string | RegExp, ...history: readonly string[]): void {
  expect(violations(...history)).toEqual([matching(what)]);
}

/** This is wrong with the history, and perhaps more. */
function includes(what: string | RegExp, ...history: readonly string[]): void {
  expect(violations(...history)).toContainEqual(matching(what));
}

function matching(what: string | RegExp): unknown {
  return typeof what === 'string' ? what : expect.stringMatching(what);
}

const TWO_HOLDERS = /^two holders of k/;
const BEHIND = /^token of k did not rise/;
const UNEXPLAINED = /^a\/1 lost k .* which nothing explains/;
const WAS_FREE = /^k was free for more than 500 ms/;
const WAS_WELL = /^a\/1 .* failed although Redis was well/;
const STARVED = /^a\/1 .* starved: it waited for k/;
const NOT_BUSY = 'a/1 (test) for k was refused as busy although nobody had it';

/** Two holders, of which the second comes when the first is still there. */
const OVERLAP = 'a/1 10-400; b/1 300-500';
/** A call that was told at 850 that its lease had expired. */
const EXPIRED = 'a/1 10-900 validUntil=850; a/1 lost 850 expired';

describe('the checker of torture: exclusion', () => {
  it('accepts holds that follow each other with rising tokens', () => {
    clean('a/1 10-20; b/1 21-30');
  });

  it('sees two holders, also around a third', () => {
    includes(/^two holders of k .*a\/1/, 'a/1 10-90; b/1 95-99; c/1 50-60');
  });

  it('sees each key of a call for several', () => {
    finds(/^two holders of m/, 'a/1 10-90 tokens=k:1,m:1; b/1 50-60 tokens=m:2');
  });

  it('counts a hold until its deadline, its loss, or the end of its process only', () => {
    const ended = 'a/1 10-90 maxHoldMs=30 validUntil=40; a/1 lost 40 max-hold';
    const dead = 'a/1 10- validUntil=90; a killed 40';
    for (const before of [ended, dead]) {
      clean(before, 'b/1 500-510');
      includes(TWO_HOLDERS, before, 'b/1 39-50');
    }
  });

  it('counts a hold for as long as its holder acts and believes, whatever its deadline says', () => {
    const paused = 'a/1 10-900 validUntil=500; a/1 lost 850 expired; a stalled 100-800';
    clean(paused, 'b/1 600-700');
    includes(TWO_HOLDERS, paused, 'a/1 acted 650', 'b/1 600-700');
  });

  it('sees a foreign client and a holder at the same time', () => {
    clean('foreign 10-40; a/1 41-50');
    finds(TWO_HOLDERS, 'foreign 10-40; a/1 30-50');
  });
});

describe('the checker of torture: permits', () => {
  const permit = (call: string, times: string, slot: number, more = '') =>
    `${call} ${times} permits=k:3 slots=k:${slot} ${more}`;
  const two = [permit('a/1', '10-90', 0), permit('b/1', '20-90', 1)];

  it('have a key together, as many as there are, and never beside others', () => {
    clean(...two, permit('c/1', '30-40', 2), 'c/2 100-110');
    for (const other of ['c/1 5-15', 'c/1 85-95', 'c/1 40-50 reads=k'])
      includes(TWO_HOLDERS, ...two, other);
  });

  it('are counted by their weights, and by the largest number', () => {
    const heavy = permit('c/1', '30-40', 2, 'weight=2');
    finds(/^4 of 3 permits of k .* c\/1 beside a\/1, b\/1/, ...two, heavy);
    finds(/^4 of 3 permits/, ...two, permit('c/1', '30-60', 2), permit('d/1', '40-50', 3));
    clean(...two, 'c/1 30-40 permits=k:4 weight=2 slots=k:2');
  });

  it('do not have the slot of another', () => {
    finds(/^two holders of slot 1 of k/, ...two, permit('c/1', '30-40', 1));
    clean(...two, permit('c/1', '91-95', 1));
  });

  it('are joined by calls inside, which do not count', () => {
    const inside = permit('b/2', '30-40', 1, 'parent=b/1');
    clean(...two, inside, permit('c/1', '35-60', 2));
    finds(/^4 of 3 permits/, ...two, inside, permit('c/1', '35-60', 2, 'weight=2'));
  });

  it('may be refused to a call inside one that has fewer', () => {
    const asks = (more: string) =>
      `b/2 asked 29 parent=b/1 ${more}; b/2 refused 30 LOCK_CONFIG_INVALID`;
    clean(...two, asks(''), 'a/9 100-110');
    clean(...two, asks('permits=k:3 weight=2'));
    finds(/refused with LOCK_CONFIG_INVALID/, ...two, asks('permits=k:3'));
  });
});

describe('the checker of torture: hand-over', () => {
  const left = 'a/1 10-90; a/1 detaches 80 ms=900; a/1 detached 85';
  const adopts = (call: string, times: string) => `${call} ${times} adopts=a/1 waitMs=0`;

  it('of a lock that nobody has until it is adopted', () => {
    clean(left, adopts('b/1', '300-400'), 'c/1 410-420');
    clean(left, 'c/1 1100-1110');
    includes(/^two holders of k .* a\/1, detached,/, left, 'c/1 200-210');
    includes(TWO_HOLDERS, left, adopts('b/1', '300-400'), 'c/1 350-420');
    includes(BEHIND, left, adopts('b/1', '300-400 token=10'));
  });

  it('to one of those who adopt it', () => {
    const refused = 'c/1 asked 300 adopts=a/1; c/1 refused 301 LOCK_NOT_ADOPTED';
    clean(left, adopts('b/1', '300-400'), refused);
    includes(
      'b/1 and c/1 have both adopted the lock of a/1',
      left,
      adopts('b/1', '300-400'),
      adopts('c/1', '410-420'),
    );
    finds(/^c\/1 .* was refused with LOCK_NOT_ADOPTED/, left, refused);
    clean(left, refused, 'operator 200-210');
    clean(left, refused.replaceAll('30', '103'));
  });

  it('of a lock that counts no more for who has detached it', () => {
    includes(TWO_HOLDERS, left, adopts('b/1', '86-400'), 'a/1 acted 88');
    clean(left, adopts('b/1', '86-400'));
  });
});

describe('the checker of torture: readers', () => {
  const reader = (call: string, times: string, token: number, more = '') =>
    `${call} ${times} reads=k token=${token} ${more}`;

  it('have a key together, in one process and in several, and never beside a writer', () => {
    const readers = [
      reader('a/1', '10-90', 5),
      reader('a/2', '20-70', 5),
      reader('b/1', '30-60', 6),
    ];
    clean(...readers, 'c/1 100-110 token=7', reader('b/2', '120-130', 8));
    for (const writer of ['c/1 5-15 token=4', 'c/1 85-95 token=7', 'b/9 40-50 token=7']) {
      includes(TWO_HOLDERS, ...readers, writer);
    }
    clean(...readers, 'a/3 40-50 reads=m tokens=k:5,m:1 parent=a/1');
    includes(TWO_HOLDERS, ...readers, 'c/1 40-50 reads=m tokens=k:7,m:1');
  });

  it('count until their deadline, and for as long as they believe', () => {
    const paused = reader('a/1', '10-900', 5, 'validUntil=500');
    const told = 'a/1 lost 850 expired; a stalled 100-800';
    clean(paused, told, 'b/1 600-700 token=7');
    includes(TWO_HOLDERS, paused, told, 'a/1 acted 650', 'b/1 600-700 token=7');
  });

  it('have numbers above those of all writers before, but not of other readers', () => {
    const behind = reader('a/2', '20-90', 5);
    clean(reader('a/1', '10-30', 5), reader('b/1', '11-90', 6), behind);
    finds(BEHIND, 'c/1 1-4 token=7', behind);
    finds(BEHIND, reader('b/1', '11-90', 6), 'c/1 100-110 token=6');
    finds(BEHIND, reader('b/1', '11-30', 8), behind, 'c/1 100-110 token=7');
  });

  it('do not take turns under a call that reads, and do under one that does not', () => {
    const branches = [
      'a/2 20-50 reads=k token=5 parent=a/1',
      'a/3 30-40 reads=k token=5 parent=a/1',
    ];
    clean(reader('a/1', '10-90', 5), ...branches);
    finds(/^two branches of a\/1 have k/, 'a/1 10-90 token=5', ...branches);
  });

  it('share the hold around them, also around calls for other keys', () => {
    const inside = 'a/2 20-50 tokens=m:6 parent=a/1; a/3 30-40 reads=k token=5 parent=a/2';
    clean('a/1 10-90 token=5', inside);
    clean(reader('a/1', '10-90', 5), inside);
  });

  it('lose their hold each by itself', () => {
    const over = [reader('a/1', '10-90', 5, 'maxHoldMs=30 validUntil=40'), 'a/1 lost 40 max-hold'];
    clean(...over, reader('a/2', '20-700', 5), reader('a/3', '60-80', 5));
    finds(/was not told of the loss/, ...over, 'a/2 20-700 reads=k token=5 parent=a/1');
  });

  it('are refused as busy only because of somebody who does not read', () => {
    const tried = 'a/1 asked 200 reads=k waitMs=0; a/1 refused 201 LOCK_NOT_ACQUIRED';
    finds(NOT_BUSY, reader('b/1', '10-900', 5), tried);
    clean('b/1 10-900 token=5', tried);
    clean(reader('b/1', '10-900', 5), 'c/1 901-950 askedAt=190 token=6', tried);
  });

  it('may not be passed by one that wants the key alone: a call that would wait for itself is refused', () => {
    const outer = reader('b/1', '10-90', 5);
    clean(outer, 'b/2 asked 20 parent=b/1; b/2 refused 21 LOCK_CONFIG_INVALID');
    for (const inner of ['b/2 asked 20', 'b/2 asked 20 reads=k parent=b/1']) {
      finds(
        /was refused with LOCK_CONFIG_INVALID/,
        outer,
        inner,
        'b/2 refused 21 LOCK_CONFIG_INVALID',
      );
    }
  });

  it('and others are refused for a deadlock only if somebody waits for what they have', () => {
    const found = 'a/1 10-90 tokens=m:1; a/2 asked 20 parent=a/1; a/2 refused 80 LOCK_DEADLOCK';
    clean(found, 'b/1 95-99 askedAt=30 tokens=k:1,m:2');
    finds(/was refused with LOCK_DEADLOCK/, found, 'b/1 95-99 askedAt=30 token=2');
    finds(/was refused with LOCK_DEADLOCK/, found, 'b/1 95-99 askedAt=85 tokens=m:2');
  });

  it('do not pass a writer that has waited', () => {
    const waits = 'w/1 10000-10100 askedAt=1000 token=9';
    const first = reader('a/1', '10-9990', 5);
    clean(first, waits, reader('b/1', '10105-10110', 10, 'askedAt=6000'));
    const passes = reader('b/1', '7000-7500', 6, 'askedAt=6000');
    includes(/^readers do not pass a writer/, first, waits, passes);
    clean(first, waits, passes, 'trouble 6000-7000');
  });

  it('of a dead process keep others out for as long as the longest lease that it has shared', () => {
    const long = reader('a/1', '10-100', 5, 'leaseMs=5000');
    const dead = [reader('a/2', '20-', 5, 'leaseMs=500 validUntil=300'), 'a killed 200'];
    const waits = 'b/1 4000-4010 askedAt=150 token=9';
    clean(long, ...dead, waits);
    includes(WAS_FREE, ...dead, waits);
  });
});

describe('the checker of torture: what a fault excuses', () => {
  it('a wipe: the leases that existed then', () => {
    finds(TWO_HOLDERS, OVERLAP);
    clean(OVERLAP, 'wipe 100-150');
    clean(OVERLAP, 'wipe 2-5'); // the answer was on its way
  });

  it('a wipe: not those that were granted after it', () => {
    finds(TWO_HOLDERS, 'a/1 300-700; b/1 600-800; wipe 10-20');
  });

  it('a wipe: not longer than until the holder must have noticed', () => {
    const until = (end: number) => `a/1 10-${end} leaseMs=6000; b/1 1000-${end}; wipe 100-150`;
    clean(until(1_300));
    finds(TWO_HOLDERS, until(3_500));
  });

  it('a wipe: longer, if its process stood still', () => {
    clean('a/1 10-3490 leaseMs=6000; b/1 1000-3500; wipe 100-150; a stalled 200-3500');
  });

  it('a wipe: a fixed lease until its end, because nothing tells it', () => {
    const fixed = 'a/1 10-2900 leaseMs=3000 renew=false remainingMs=2950';
    clean(fixed, 'b/1 1000-2950; wipe 100-150');
  });

  it('a deleted key: this key alone', () => {
    clean('a/1 10-400 answer=false; b/1 300-500; deleted 100-101 notice=renewal');
    finds(TWO_HOLDERS, OVERLAP, 'deleted 100-101 of=other notice=renewal');
  });

  it('a release by an operator: longer if its message could not arrive, until the next renewal', () => {
    const until = (end: number) =>
      `a/1 10-${end} leaseMs=6000 answer=false; b/1 4020-5500; operator 3000-3001`;
    finds(TWO_HOLDERS, until(4_900));
    clean(until(4_900), 'silence 2900-3900');
    clean(until(4_900), 'silence 1000-2500'); // it has to be subscribed again
    clean(until(4_900), 'silence 2900-3900 of=k');
    finds(TWO_HOLDERS, until(4_900), 'silence 2900-3900 of=m');
    finds(TWO_HOLDERS, until(5_400), 'silence 2900-3900');
    finds(TWO_HOLDERS, until(4_900), 'silence 3050-3900');
    finds(TWO_HOLDERS, until(4_900), 'silence 500-1000');
    clean(until(4_900), 'silence 500-1000; a stalled 900-2800');
  });

  it('a restart with its data: nothing', () => {
    finds(TWO_HOLDERS, OVERLAP, 'trouble 100-150');
  });

  const ALL = { rule: 'excuses', text: '2 of 2 holds were excused by faults, more than 50 %' };

  it('no more than a share of all holds', () => {
    const { excused, violations: found } = judged([OVERLAP, 'wipe 100-150'], { excusedShare: 0.5 });
    expect(excused).toBe(2);
    expect(found).toEqual([ALL]);
  });

  it('no more than a share of all holds, among which a crowd that gives up does not count', () => {
    const crowd = (at: number) =>
      [1, 2, 3, 4, 5]
        .map((n) => `c/${at}.${n} ${at}-${at + 5} tokens=crowd-${n}:${at} what=crowd`)
        .join(';');
    const found = (...more: string[]) =>
      judged([OVERLAP, 'wipe 100-150', ...more], { excusedShare: 0.5 }).violations;
    expect(found('a/8 600-610; a/9 620-630', crowd(95))).toEqual([]);
    expect(found(crowd(700))).toEqual([ALL]);
  });
});

describe('the checker of torture: what the promotion of a replica excuses', () => {
  const overlap = 'a/1 10-600; b/1 400-700';
  const unknown = 'promoted 200-210 leases=k:null';

  it('a lease that the replica did not know, or knew as that of another process', () => {
    finds(TWO_HOLDERS, overlap);
    clean(overlap, unknown);
    clean(overlap, 'promoted 200-210 leases=k:c@900');
  });

  it('a lease that the replica knew: only from the end that it knew on', () => {
    clean(overlap, 'promoted 200-210 leases=k:a@390');
    finds(TWO_HOLDERS, overlap, 'promoted 200-210 leases=k:a@500');
  });

  it('a lease that the replica knew: not even if the other holder came before all knew of it', () => {
    const early = 'a/1 10-600; b/1 205-700';
    clean(early, unknown);
    finds(TWO_HOLDERS, early, 'promoted 200-210 leases=k:a@500');
  });

  it('a later lease of the same process, which the replica did not get', () => {
    clean('a/1 160-600; b/1 400-700; promoted 200-210 leases=k:a@500');
  });

  it('no other key, and not the keys of another master', () => {
    finds(TWO_HOLDERS, overlap, 'promoted 200-210 leases=m:null');
    finds(TWO_HOLDERS, overlap, 'trouble 200-210 of=k'); // a failover in order
  });

  it('no lease that was granted when all knew the new master', () => {
    finds(TWO_HOLDERS, 'a/1 400-800; b/1 700-900', unknown);
  });

  it('no longer than until the holder must have heard of it', () => {
    const long = 'a/1 10-2000 leaseMs=6000; b/1 400-2100';
    finds(TWO_HOLDERS, long, unknown);
    clean(long, unknown, 'a stalled 150-1900');
  });

  it('a grant of the old master to a process that stood still and could not hear of the new one', () => {
    const woken = 'a/1 3010-3400 leaseMs=500; b/1 2900-3500';
    finds(TWO_HOLDERS, woken, unknown);
    clean(woken, unknown, 'a stalled 150-3005');
    // It hears of it in one of its first turns, which are long: everything was waiting for it.
    clean(woken, unknown, 'a stalled 150-2800');
    finds(TWO_HOLDERS, woken, unknown, 'a stalled 150-2500');
    finds(TWO_HOLDERS, woken, unknown, 'a stalled 250-2800');
  });

  it('a lower token of the old master, but not one of the new master behind it', () => {
    const lower = 'a/1 10-300 token=5; b/1 400-700 token=9; a/2 500-600 token=6';
    includes(BEHIND, lower);
    clean(lower, unknown);
    finds(BEHIND, 'a/1 10-600 token=9; b/1 400-700 token=5', unknown);
  });

  it('a lower token of the new master only if it was granted before, as one of several', () => {
    const woken = 'a stalled 150-345; a/1 350-380 token=9';
    const several = (askedAt: number) => `b/1 400-700 tokens=k:5,m:5 askedAt=${askedAt}`;
    const both = 'promoted 200-210 leases=k:null,m:null';
    clean(woken, both, several(300));
    finds(BEHIND, woken, both, several(360));
    finds(BEHIND, woken, several(300));
  });

  it('a lease that is lost: not before the end that the replica knew', () => {
    const lost = 'a/1 10-600 validUntil=400 maxHoldMs=9000; a/1 lost 400 deleted';
    clean(lost, unknown);
    clean(lost, 'promoted 200-210 leases=k:a@300');
    finds(UNEXPLAINED, lost, 'promoted 200-210 leases=k:a@900');
    finds(UNEXPLAINED, lost, 'promoted 200-210 leases=m:null');
  });

  it('a wait for a lease that was given back and is there again, until its end', () => {
    const waited = 'b/1 90-100; a/1 8000-8010 askedAt=110';
    clean(waited, 'promoted 200-210 leases=k:b@6400');
    includes(WAS_FREE, waited, unknown);
  });
});

describe('the checker of torture: what trouble with one of several masters excuses', () => {
  /** A server that is away while nothing is lost, and a slot that is moved. */
  const troubles = ['trouble 100-200', 'moved 100-200'];
  const atOnce = /^a\/1 .* failed after 1 ms of its waitMs/;

  it('a failing store: only for its keys', () => {
    const failed = 'b/1 0-1100; a/1 asked 1 waitMs=1000; a/1 refused 1001 LOCK_STORE_FAILED';
    finds(WAS_WELL, failed, 'trouble 100-200 of=m,x');
    finds(WAS_WELL, failed, 'moved 100-200 of=m');
    for (const trouble of troubles) clean(failed, `${trouble} of=k`);
  });

  it('a store that fails at once: only when it has been away for two seconds', () => {
    const failed = (at: number) =>
      `b/1 0-9000 tokens=k:1,m:1; a/1 asked ${at - 1}; a/1 refused ${at} LOCK_STORE_FAILED`;
    const long = 'trouble 100-3000 of=k healingMs=5000';
    clean(failed(2_200), long);
    clean(failed(4_000), long); // it has to be connected again
    finds(atOnce, failed(2_000), long);
    finds(atOnce, failed(5_000), long);
    finds(WAS_WELL, failed(2_200), 'trouble 100-3000 of=m healingMs=5000');
    clean(failed(2_000), long, 'a stalled 900-2000');
    finds(atOnce, failed(2_000), long, 'a stalled 1100-2000');
    clean(failed(6_000), long, 'trouble 4200-6000 healingMs=5000'); // no time to connect
    finds(atOnce, failed(6_000), long, 'trouble 4300-6000 healingMs=5000');
  });

  it('a store that fails: longer if its process stood still and could not connect again', () => {
    const failed =
      'c/1 0-9000; trouble 100-3000; a/1 asked 2900 waitMs=4000; a/1 refused 6950 LOCK_STORE_FAILED';
    finds(WAS_WELL, failed);
    clean(failed, 'a stalled 2950-6000'); // it has had no time to connect again
    finds(WAS_WELL, failed, 'b stalled 2950-6000');
    finds(WAS_WELL, failed, 'a stalled 2950-5000');
  });

  it('a store that fails at once: longer if its process stood still and could not connect again', () => {
    const failed = 'b/1 0-9000; a/1 asked 6999; a/1 refused 7000 LOCK_STORE_FAILED';
    const long = 'trouble 100-3000 healingMs=5000';
    // Not so late that this alone would explain it.
    clean(long, failed, 'a stalled 2900-5900');
    finds(atOnce, long, failed, 'b stalled 2900-5900');
    finds(atOnce, long, failed, 'a stalled 2900-5600');
  });

  it('a wait for a key that is free: only for its keys, and not for long', () => {
    const waited = (until: number) => `b/1 80-90; a/1 ${until}-${until + 10} askedAt=95`;
    for (const trouble of troubles) {
      clean(waited(2_000), `${trouble} of=k`);
      finds(WAS_FREE, waited(2_000), `${trouble} of=m`);
      includes(WAS_FREE, waited(6_000), `${trouble} of=k`);
    }
  });

  it('a lease that is lost: not while a slot is moved', () => {
    const lost = 'a/1 10-300 validUntil=250; a/1 lost 250 expired';
    clean(lost, 'trouble 100-200 of=k');
    finds(UNEXPLAINED, lost, 'trouble 100-200 of=m');
    finds(UNEXPLAINED, lost, 'moved 100-200 of=k');
  });

  it('a key that an application left behind when it closed beside a server that did not answer', () => {
    const left =
      'c/1 asked 90 leaseMs=6000; c/1 refused 160 LOCK_ABORTED; c closing 150 shutdownMs=20; c closed 170';
    const waited = 'a/1 6190-6200 askedAt=95';
    clean(left, 'trouble 100-200 of=k', waited);
    includes(WAS_FREE, left, 'trouble 100-200 of=m', waited);
    includes(WAS_FREE, 'trouble 100-200 of=k', waited);
    includes(WAS_FREE, left, 'trouble 100-200 of=k', 'a/1 9000-9010 askedAt=95');
  });

  it('a lease that is lost: if its process stood still for long, not for a moment', () => {
    clean(EXPIRED, 'a stalled 100-700');
    // It is renewed when a third is over, and the answer has come while the process stood still.
    finds(UNEXPLAINED, EXPIRED, 'a stalled 660-700');
    finds(UNEXPLAINED, EXPIRED, 'a stalled 300-700');
  });

  it('a lease that is lost unrenewed: if its process stood still for half of what was left of it', () => {
    const lost = 'a/1 10-900 leaseMs=2500 remainingMs=788 validUntil=798; a/1 lost 815 expired';
    clean(lost, 'a stalled 15-812');
    finds(UNEXPLAINED, lost, 'a stalled 432-812');
    finds(UNEXPLAINED, lost, 'b stalled 15-812');
    // If it was renewed, the whole of it was left.
    finds(UNEXPLAINED, lost, 'a stalled 15-812; a/1 valid 14 until=814');
    const joined = 'a/2 11-14 token=10 parent=a/1 validUntil=814';
    finds(UNEXPLAINED, lost, 'a stalled 15-812', joined);
  });

  it('a lease that is lost on a slow link: only one that is too short for it', () => {
    clean(EXPIRED, 'trouble 100-800 keepsLeasesFromMs=1001');
    finds(UNEXPLAINED, EXPIRED, 'trouble 100-800 keepsLeasesFromMs=1000');
  });

  it('two holders: never', () => {
    for (const trouble of troubles) finds(TWO_HOLDERS, OVERLAP, `${trouble} of=k`);
  });
});

describe('the checker of torture: what the clocks of a process excuse', () => {
  const suspended = 'suspended 100-3000 of=a';

  it('a suspend: the leases of that process, until it has noticed', () => {
    clean(suspended, 'a/1 50-4000 leaseMs=2000; b/1 2000-2010');
    clean(suspended, 'a/1 50-4000 leaseMs=2000; b/1 3900-3910');
    includes(TWO_HOLDERS, suspended, 'a/1 50-5000 leaseMs=2000; b/1 4500-4510');
  });

  it('a suspend: also of a process that could not say any more until when it has its lease', () => {
    const lost = 'a/1 98-3100 leaseMs=2000 answer=false validUntil=-1; a/1 lost 3010 deleted';
    clean(suspended, lost);
    finds(/lost k \(deleted\)/, lost);
  });

  it('a suspend: not the leases of another process, and not a later one', () => {
    includes(TWO_HOLDERS, suspended, 'c/1 50-2500; b/1 2000-2010');
    includes(TWO_HOLDERS, suspended, 'a/2 3200-3900; b/1 3500-3510');
  });

  it('a suspend: a fixed lease and maxHoldMs, which are over when they are over for the process', () => {
    const long = 'a/1 50-3900 renew=false leaseMs=1000 remainingMs=1000';
    clean(suspended, long);
    finds(/its fixed lease is 1000/, long);
  });

  it('a step of the wall clock: nothing', () => {
    finds(UNEXPLAINED, 'nothing 100-110', EXPIRED);
  });
});

describe('the checker of torture: the time that is excused', () => {
  it('is counted by fault and key, from the fault until everything goes on as before', () => {
    const faults = 'trouble 100-200 name=paused of=a; deleted 300 name=deleted of=b healingMs=1000';
    const calls = '0/1 10-10000 tokens=a:1; 1/1 10-10000 tokens=b:1; 2/1 10-10000 tokens=w1:1';
    expect(judged([faults, calls]).excusedTime).toMatchObject({
      byCause: { paused: { a: 3_600 }, deleted: { b: 1_000 } },
      byKey: { a: 3_600, b: 1_000, w1: 0 },
    });
  });

  it('leaves a share of the run to be judged', () => {
    const texts = (excusedTimeShare: number): string[] =>
      judged(['trouble 100-200; a/1 10-4010 tokens=a:1'], { excusedTimeShare }).violations.map(
        ({ text }) => text,
      );
    expect(texts(0.95)).toEqual([]);
    expect(texts(0.8)).toContain('waits for a were excused for 90 % of the time, more than 80 %');
  });

  it('is capped by itself where faults were planned, whatever the machine adds', () => {
    const texts = (...more: readonly string[]): string[] =>
      judged(['a/1 10-20010 tokens=a:1', ...more], { plannedTimeShare: 0.3 }).violations.map(
        ({ text }) => text,
      );
    expect(texts('trouble 100-200; a stalled 5000-19000')).toEqual([]);
    expect(texts('trouble 100-200 of=b; trouble 100-9000 of=w1')).toEqual([]);
    expect(texts('trouble 100-9000')).toContain(
      'waits for a were excused by planned faults for 62 % of the time, more than 30 %',
    );
  });

  it('is told of holders that were beside each other, as well', () => {
    expect(judged(['wipe 40-60; a/1 10-90; b/1 70-200']).excusedOverlaps).toEqual({ k: 20 });
  });
});

describe('the checker of torture: fencing tokens', () => {
  it('must rise', () => {
    finds(BEHIND, 'a/1 10-20 token=5; b/1 21-30 token=4');
  });

  it('are never the same twice', () => {
    const same = 'a/1 10-20 token=5; b/1 21-30 token=5';
    finds(BEHIND, same);
    expect(violations(same, 'wipe 15-18')).not.toEqual([]);
  });

  it('may come behind a newer one only from a lease that Redis forgot', () => {
    const forgotten = 'a/1 10-100 token=5; b/1 200-400 token=9; a/2 300-350 token=6; wipe 50-60';
    clean(forgotten);
    const fresh = /^token of k did not rise: b\/1 had 9, a\/2 after it 8/;
    finds(fresh, forgotten, 'a/2 450-460 token=8');
  });
});

describe('the checker of torture: calls inside of calls', () => {
  const root = 'a/1 10-100 token=1';
  const inside = (call: string, times: string): string => `${call} ${times} token=1 parent=a/1`;
  const lost = 'a/1 10-300 token=1 maxHoldMs=90 validUntil=100; a/1 lost 100 max-hold';

  it('share the hold of their root, one after the other', () => {
    clean(root, inside('a/2', '20-40'), inside('a/3', '41-60'));
  });

  it('take turns', () => {
    const both = /^two branches of a\/1 have k at the same time/;
    finds(both, root, inside('a/2', '20-40'), inside('a/3', '39-60'));
  });

  it('may outlive their root, which keeps the key', () => {
    clean(root, inside('a/2', '50-300'));
    finds(TWO_HOLDERS, root, inside('a/2', '50-300'), 'b/1 200-220');
  });

  it('never share a hold with strangers', () => {
    finds(/^a\/2 and a\/1 share a hold of k/, root, 'a/2 20-40 token=1');
  });

  it('do not join a hold after its loss, and are told of it', () => {
    clean(lost, inside('a/2', '50-90'));
    finds(/^a\/2 joined a hold of k 20.0 ms after its loss/, lost, inside('a/2', '120-130'));
    includes(/^a\/2 was not told of the loss of k/, lost, inside('a/2', '50-290'));
  });

  it('are told that they joined a hold and of its loss in one moment only if their process stood still', () => {
    const late = (from: number) =>
      `${inside('a/2', `${from}-130`)} validUntil=99 remainingMs=0; a/2 lost ${from} max-hold`;
    clean(lost, late(100.7), 'a stalled 50-100.5');
    includes(/^a\/2 joined a hold of k/, lost, late(100.7));
    includes(/^a\/2 joined a hold of k/, lost, late(140), 'a stalled 50-139');
  });

  it('get several keys in the moment in which the hold of one is lost only if they are told of both', () => {
    const several = (from: number) =>
      `a/2 ${from}-290 tokens=k:1,m:7 parent=a/1 askedAt=50 validUntil=99 remainingMs=0`;
    clean(lost, several(100.2), 'a/2 lost 100.3 max-hold');
    includes(/^a\/2 joined a hold of k/, lost, several(100.2));
    includes(/^a\/2 joined a hold of k/, lost, several(140), 'a/2 lost 140.1 max-hold');
  });

  it('that read may get the lease of their process anew while they wait for another key, and share that', () => {
    const reader = (call: string, times: string, more = ''): string =>
      `${call} ${times} reads=k tokens=k:1${more}`;
    const outer = `${reader('a/1', '10-300')} maxHoldMs=90 validUntil=100; a/1 lost 100 max-hold`;
    const anew = reader('a/2', '140-290', ',m:7 parent=a/1 askedAt=50');
    clean(outer, anew, reader('a/3', '150-160', ' parent=a/2'));
    includes(/^a\/2 joined a hold of k/, outer, reader('a/2', '140-290', ' parent=a/1 askedAt=50'));
    includes(/^a\/3 joined a hold of k/, outer, anew, reader('a/3', '150-160', ' parent=a/1'));
  });
});

describe('the checker of torture: the terms of a hold', () => {
  it('begins while it is held', () => {
    const over = 'a/1 10-20 remainingMs=0 validUntil=9';
    finds(/^a\/1 .* when that was over/, over);
    clean(over, 'a stalled 1-9');
  });

  it('does not end before its holder is told of it', () => {
    const untold = /^a\/1 worked for 400 ms after the end of its hold of k, and was never told/;
    finds(untold, 'a/1 10-900 validUntil=500');
    clean('a/1 10-900 validUntil=500', 'a stalled 450-880');
    const suspended = 'suspended 100-3000 of=a; a stalled 100-3001';
    clean('a/1 10-4100 validUntil=500', suspended);
    finds(/^a\/1 worked for 250 ms after the end/, 'a/1 10-4500 validUntil=500', suspended);
    const unanswered = 'trouble 3000-5000'; // so that it cannot ask whether the lock is still its own
    clean('a/1 10-5300 validUntil=500', suspended, unanswered);
    finds(/^a\/1 worked for/, 'a/1 10-9000 validUntil=500', suspended, unanswered);
    finds(/^a\/1 worked for/, 'a/1 10-5300 validUntil=500', unanswered);
  });

  it('ends for one who acts, too, however long its process stood still', () => {
    const woken = 'a/1 10-900 validUntil=500; a stalled 100-800; a/1 lost 801 expired';
    clean(woken, 'a/1 acted 90');
    finds('a/1 acted 310 ms after the end of its hold of k', woken, 'a/1 acted 810');
  });

  it('ends after maxHoldMs', () => {
    finds(/^a\/1 had k for 590 ms, its maxHoldMs is 200/, 'a/1 10-600 maxHoldMs=200');
  });

  it('ends with a fixed lease, unless that was prolonged', () => {
    const fixed = 'a/1 10-900 renew=false leaseMs=500 remainingMs=495';
    const joined = 'a/2 20-30 token=10 parent=a/1';
    finds(/its fixed lease is 500/, fixed);
    clean(fixed, 'a/1 ensured 20 ms=800');
    finds(/its fixed lease is 500/, fixed, joined);
    clean(fixed, joined, 'a/2 ensured 25 ms=800');
  });

  it('has the length of its fixed lease at the start', () => {
    const short = 'a/1 10-300 renew=false leaseMs=5000 remainingMs=2770';
    finds('a/1 asked for a fixed lease of 5000 ms of k and got 2770', short);
    clean(short, 'trouble 0-8');
  });

  it('has at least half of its fixed lease at the start, unless its process stood still just then', () => {
    const short = 'a/1 1010-1300 renew=false leaseMs=5000 remainingMs=2000';
    const tooShort = 'a/1 asked for a fixed lease of 5000 ms of k and got 2000';
    finds(tooShort, short, 'a stalled 500-1009');
    finds(tooShort, short, 'a stalled 900-1020');
    clean(short, 'a stalled 500-1020');
  });

  it('is lost for a reason', () => {
    const lost = (reason: string, at = 100) =>
      `a/1 10-300 maxHoldMs=200 validUntil=${at}; a/1 lost ${at} ${reason}`;
    clean(lost('max-hold', 210));
    for (const reason of ['max-hold', 'shutdown', 'deleted', 'expired']) {
      finds(UNEXPLAINED, lost(reason));
    }
    clean(lost('deleted'), 'wipe 50-60');
    clean(lost('expired'), 'trouble 50-60');
  });

  it('has ended maxHoldMs after it began, which a process that stood still was told later', () => {
    const short = 'a/1 110-400 maxHoldMs=200 validUntil=210; a/1 lost 210 max-hold';
    finds(UNEXPLAINED, short);
    clean(short, 'a stalled 5-110');
  });

  const TAKEN = /^the release of k by a\/1 was answered with true/;

  it('is not said to be released when it had been taken away', () => {
    finds(TAKEN, 'a/1 10-400; deleted 100-101');
    clean('a/1 10-400 answer=false; deleted 100-101');
  });

  it('is not said to be released by its process, unless that repeated the command over a new connection', () => {
    const suspended = (process: string) =>
      `suspended 50-6000 of=${process}; ${process} stalled 50-6000`;
    const released = 'a/1 10-6001 renew=false validUntil=300; deleted 100-101';
    includes(TAKEN, released, suspended('a'));
    includes(TAKEN, released, 'trouble 200-201', suspended('b'));
    const cut = violations(released, 'trouble 200-201', suspended('a'));
    expect(cut).not.toContainEqual(matching(TAKEN));
  });

  it('is kept for holdAtLeastMs', () => {
    const kept = 'a/1 10-20 holdAtLeastMs=500';
    clean(kept, 'b/1 515-520');
    finds('b/1 got k 210 ms before the end of holdAtLeastMs of a/1', kept, 'b/1 300-320');
    clean(kept, 'b/1 300-320; deleted 100-101');
  });

  it('is passed to nobody after maxHoldMs while its work runs', () => {
    const wedged = 'a/1 10-800 maxHoldMs=100 validUntil=110; a/1 lost 110 max-hold';
    clean(wedged, 'b/1 600-620');
    const early = /^a\/2 got k 1.0 ms after maxHoldMs of a\/1, whose work still ran/;
    finds(early, wedged, 'a/2 111-120');
    // A process that stood still until its lease was over is told of its end later than the next one gets the key.
    const told = 'a/1 10-900 maxHoldMs=123 validUntil=133; a/1 lost 850 max-hold; b/1 800-810';
    clean(told, 'a stalled 11-840');
  });

  it('is seen by inspect()', () => {
    clean('a/1 10-90; a/1 inspected 50 this process');
    const nobody = 'a/1 10-90; a/1 inspected 50 nobody';
    finds('a/1 held k while inspect() said that nobody has it', nobody);
  });
});

describe('the checker of torture: answers', () => {
  it('come at all', () => {
    finds('a/1 (test) for k was never answered', 'a/1 asked 1');
    clean('a/1 asked 1; a killed 5');
  });

  it('come within waitMs and a second', () => {
    const busy = 'b/1 0-9000; a/1 asked 1 waitMs=2000';
    clean(busy, 'a/1 refused 3000');
    const late = 'a/1 (test) for k was answered after 5999 ms, its waitMs is 2000';
    includes(late, busy, 'a/1 refused 6000');
  });

  it('see an abort', () => {
    const busy = 'b/1 0-900; a/1 asked 1; a/1 aborted 50';
    const late = /^a\/1 .* did not see the abort of its signal: answered 750 ms later/;
    clean(busy, 'a/1 refused 60 LOCK_ABORTED');
    finds(late, busy, 'a/1 refused 800 LOCK_ABORTED');
    // One that is killed right after it stood still has no time to say so.
    clean(busy, 'a/1 refused 800 LOCK_ABORTED; a killed 900');
    finds(late, busy, 'a/1 refused 800 LOCK_ABORTED; a killed 1200');
  });

  it('say that a call was aborted only if it was, or its application closed', () => {
    const aborted = 'a/1 asked 1; a/1 refused 9 LOCK_ABORTED';
    finds(/^a\/1 .* was aborted although/, aborted);
    clean(aborted, 'a closing 5 shutdownMs=100; a closed 20');
  });

  it('of a single try: busy only if somebody has the key', () => {
    const tried = 'a/1 asked 500 waitMs=0; a/1 refused 501';
    finds(NOT_BUSY, tried);
    clean(tried, 'b/1 300-600');
    finds(NOT_BUSY, tried, 'b/1 100-200');
    clean(tried, 'b/1 100-200 lingerMs=1000');
    clean(tried, 'b/1 100-200 holdAtLeastMs=1000');
  });

  it('of a single try: a failing try of several keys is no reason', () => {
    const several = 'b/1 asked 499 waitMs=0 keys=k,m; b/1 refused 502; c/1 400-600 tokens=m:1';
    finds(NOT_BUSY, 'a/1 asked 500 waitMs=0; a/1 refused 501', several);
  });

  it('of a single try: what an aborted call had got of several keys, until its process goes on', () => {
    const aborted = 'b/1 asked 700 keys=k,m; b/1 aborted 790; b/1 refused 790 LOCK_ABORTED';
    const tried = 'a/1 asked 1000 waitMs=0; a/1 refused 1001';
    clean(tried, aborted, 'b stalled 800-940');
    finds(NOT_BUSY, tried, aborted);
    finds(NOT_BUSY, tried, aborted, 'c stalled 800-940');
  });

  it('of a store that failed: not because the process itself stood still', () => {
    const failed = 'a/1 asked 10 waitMs=0; a/1 refused 1500 LOCK_STORE_FAILED';
    finds(WAS_WELL, failed, 'a stalled 20-1490');
  });

  it('of a store that failed: if the process stood still for half of its lease, and says so', () => {
    const failed = (leaseMs: number) =>
      `a/1 asked 1100 leaseMs=${leaseMs}; ` +
      'a/1 refused 1500 LOCK_STORE_FAILED it took 600 ms, or this process stood still';
    clean(failed(1_000), 'a stalled 800-1400');
    finds(WAS_WELL, failed(1_000));
    finds(WAS_WELL, failed(1_300), 'a stalled 800-1400');
  });

  it('of a store that failed: only if Redis was in trouble, and not before the end of the wait', () => {
    const failed = (at: number) =>
      `b/1 0-1100; a/1 asked 1 waitMs=1000; a/1 refused ${at} LOCK_STORE_FAILED`;
    finds(WAS_WELL, failed(1_001));
    clean(failed(1_001), 'trouble 100-200');
    const early = /^a\/1 .* failed after 299 ms of its waitMs 1000/;
    finds(early, failed(300), 'trouble 100-200');
  });
});

describe('the checker of torture: waits', () => {
  const handedOver = (count: number, key: string): string =>
    Array.from({ length: count }, (_, n) => {
      return `b/${n} ${n * 100}-${n * 100 + 95} tokens=${key}:${n}`;
    }).join(';');

  it('no longer for a key that is free', () => {
    const waited = 'a/1 2000-2010 askedAt=1000';
    finds(WAS_FREE, 'b/1 900-950', waited);
    clean('b/1 900-1950', waited);
    clean('b/1 900-950', waited, 'trouble 990-1100');
    clean('b/1 900- validUntil=950; b killed 960', waited);
  });

  it('for a key that somebody has unseen, while it waits for one that a third has unseen, and so on', () => {
    const first = 'b/1 2000-2010 askedAt=1000 tokens=m:1,x:1';
    const second = 'c/1 2100-2110 askedAt=1000 tokens=l:1,m:2';
    const third = 'd/1 2200-2210 askedAt=1000 tokens=k:1,l:2';
    const waited = 'a/1 2300-2310 askedAt=1000 tokens=k:2';
    clean(first, second, third, waited, 'moved 990-2000 of=x');
    expect(violations(first, second, third, waited, 'moved 990-2000 of=y')).not.toEqual([]);
    expect(violations(first, waited, 'moved 990-2000 of=x')).not.toEqual([]);
  });

  it('for a key that may be with a process that stood still until it was killed', () => {
    const waited = 'c/1 asked 1000; c killed 2500; a/1 2600-2610 askedAt=1000';
    clean(waited);
    includes(WAS_FREE, waited, 'c/2 asked 2000 keys=m');
  });

  it('for a key whose unused lease a process kept when it was killed', () => {
    const waited = 'b killed 1100; a/1 2000-2010 askedAt=1050';
    finds(WAS_FREE, 'b/1 900-950 lingerMs=0', waited);
    clean('b/1 900-950 lingerMs=1500', waited);
  });

  const both = 'a/1 3000-3010 askedAt=1000 tokens=k:90,m:90; b/1 900-2950 tokens=m:80';

  it('for several keys, one of which somebody has', () => {
    clean(both);
  });

  it('for a key that somebody has unseen, while it waits for its other keys', () => {
    clean(both, 'c/1 3020-3030 askedAt=1200 tokens=k:99');
  });

  it('and not without end for a key that goes from hand to hand', () => {
    finds(STARVED, handedOver(50, 'k'), 'a/1 5000-5010 askedAt=1');
  });

  it('but long behind those who asked before it, and not behind one who asked later', () => {
    const waited = 'a/1 5010-5020 askedAt=100';
    clean('b/1 50-5000', waited);
    finds(STARVED, 'b/1 50-1000; c/1 1010-5000 askedAt=999', waited);
    clean('b/1 50-1000; c/1 1010-5000 askedAt=99', waited);
  });

  it('for several keys in their order: behind those who asked for a key before it had the one before', () => {
    // While b/1 waits for z, it has m.
    const served = [
      'e/1 990-2490 tokens=m:1; d/1 900-5995 tokens=z:1',
      'b/1 6000-6010 askedAt=2500 tokens=m:2,z:2; a/1 6020-6030 askedAt=1000 tokens=k:2,m:3',
    ];
    clean(...served, 'c/1 900-2600 tokens=k:1');
    finds(/^a\/1 .* starved: it waited for k\+m/, ...served, 'c/1 900-1050 tokens=k:1');
  });

  it('for several keys in their order: not without end while one of them goes from hand to hand', () => {
    const several = 'a/1 6000-6010 askedAt=1 tokens=k:99999,m:99999';
    for (const key of ['k', 'm']) finds(STARVED, handedOver(60, key), several);
  });
});

describe('the checker of torture: a call for several keys', () => {
  // It may have had k from 1,700 on, and lost it again.
  const stalledUntil = (until: number, leaseMs = 900) =>
    `c/1 900-1700; b/1 1800-8000 askedAt=1790; a stalled 1710-${until}; ` +
    `a/1 8010-8020 askedAt=1000 tokens=k:9000,m:9000 leaseMs=${leaseMs}`;

  it('is behind those who have come to its first key, if its process has stood still for so long that it lost it', () => {
    clean(stalledUntil(2_710));
  });

  it('and otherwise comes before them', () => {
    finds(STARVED, stalledUntil(1_910));
    finds(STARVED, stalledUntil(2_710, 3_000));
  });
});

describe('the checker of torture: processes', () => {
  it('see what is wrong in itself', () => {
    finds('a: a warning', 'a wrong 1 a warning');
  });

  it('end by themselves, with exit code 0, after everything was closed', () => {
    clean('a exited 9 code=0 wasClosed=true');
    finds('a ended with exit code 1', 'a exited 9 code=1 wasClosed=true');
    finds('a ended before its work was done', 'a exited 9 code=0 wasClosed=false');
    finds('a did not finish in time and was ended', 'a exited 9 code=null wasClosed=true');
  });

  it('close in time', () => {
    const closing = 'a closing 0 shutdownMs=1000';
    clean(closing, 'a closed 1500');
    const late = 'a took 9000 ms to close, with a shutdownMs of 1000';
    finds(late, closing, 'a closed 9000');
    finds('a did not close a.1a', closing);
  });

  it('end what they began', () => {
    finds('a/1 never ended its hold', 'a/1 1- validUntil=5');
    finds('a/1 never ended its release', 'a/1 1- validUntil=5; a/1 ended 5');
  });
});

describe('the checker of torture: what another checker finds, which knows nothing of this library', () => {
  it('a wait that lasts too long, unless its process stood still, be it since before it asked', () => {
    const long = 'a/1 9200-9210 askedAt=110 waitMs=200';
    includes(/^a wait ends in time/, long);
    clean(long, 'a stalled 100-9100');
  });

  it('waiters that are served in the wrong order', () => {
    const first = 'b/1 3010-3090 askedAt=100; c/1 3100-3200 askedAt=2500';
    const wrong = 'c/1 3010-3090 askedAt=2500; b/1 3100-3200 askedAt=100';
    clean('a/1 10-3000', first);
    finds(/^who waits longer comes first: /, 'a/1 10-3000', wrong);
    clean('a/1 10-3000', wrong, 'b stalled 110-400');
  });

  it('a key that is idle for 850 ms at each hand-over', () => {
    const passed = (idleMs: number): string[] =>
      Array.from({ length: 15 }, (_, n) => {
        const at = n * 1_000;
        return `p${n}/1 ${at + idleMs}-${at + 990} askedAt=${Math.max(0, at - 500)}`;
      });
    const found = (idleMs: number): string[] =>
      judged(passed(idleMs), { gapMs: 900 }).violations.map(({ text }) => text);
    expect(found(850)).toEqual([expect.stringMatching(/^a hand-over is prompt: /)]);
    expect(found(50)).toEqual([]);
  });

  it('a wait that ends 1.5 s late', () => {
    const late = (at: number): string => `a/1 asked 1 waitMs=1000; a/1 refused ${at}`;
    finds(/^a wait ends in time: /, 'b/1 0-4000', late(2_501));
    clean('b/1 0-4000', late(1_801));
    clean('b/1 0-4000', late(2_501), 'trouble 900-1000');
  });

  it('the key of a dead holder that is kept for three leases', () => {
    const dead = 'a/1 10- leaseMs=500 validUntil=600; a killed 600';
    finds(/^a dead holder keeps a key for one lease: /, dead, 'b/1 2100-2110 askedAt=20');
    clean(dead, 'b/1 1300-1310 askedAt=20');
  });

  /** Over before the forgery, or about another key and another process. None of them is an excuse. */
  const NO_EXCUSES: readonly (readonly string[])[] = [
    ['trouble 3000-3100'],
    ['trouble 10000-40000 of=m1', 'deleted 12000 of=m1', 'silence 10000-40000 of=m1'],
    ['z/1 10000-40000 tokens=m1:1', 'z stalled 11000-14000', 'z killed 50000'],
  ];
  it.each(NO_EXCUSES.map((faults) => [faults.join('; '), faults] as const))(
    'each of them, beside %s',
    (_, faults) => {
      const dead = 'a/1 10010- leaseMs=500 validUntil=10600; a killed 10600';
      const forged: readonly (readonly [RegExp, readonly string[]])[] = [
        [
          /^who waits longer comes first: /,
          [
            'a/1 10010-13000 askedAt=10009',
            'c/1 13010-13090 askedAt=12500',
            'b/1 13100-13200 askedAt=10100',
          ],
        ],
        [
          /^a wait ends in time: /,
          ['b/1 10000-14000', 'a/1 asked 10001 waitMs=1000; a/1 refused 12501'],
        ],
        [/^a dead holder keeps a key for one lease: /, [dead, 'b/1 12100-12110 askedAt=10020']],
        [
          /^a\/1 worked for 400 ms after the end of its hold of k, and was never told/,
          ['a/1 10010-10900 validUntil=10500'],
        ],
        [
          /^a hand-over is prompt: /,
          Array.from({ length: 15 }, (__, n) => {
            const at = 10_000 + n * 1_000;
            return `p${n}/1 ${at + 850}-${at + 990} askedAt=${at - 500}`;
          }),
        ],
      ];
      for (const [rule, history] of forged) {
        const texts = judged([...history, ...faults]).violations.map(({ text }) => text);
        expect(texts).toContainEqual(expect.stringMatching(rule));
      }
    },
  );
});
