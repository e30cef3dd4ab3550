/** Each rule finds a history that was forged to break it, and lets pass the same history as it should be. */
import { describe, expect, it } from '@jest/globals';
import { checkHistory, type HistoryLine } from 'check-history';

type Step = readonly [at: number, process: string, type: string, more?: object];

const CALLED = { keys: ['a'], waitMs: 1_000, leaseMs: 500 };
const entered = (fence: number) => ({ fences: { a: fence }, believed: true });

const OF_CALLS = [
  ...['called', 'entered', 'assured', 'effect', 'left', 'ended'],
  ...['detaches', 'detached'],
];

/** Every process makes one call. */
function history(...steps: readonly Step[]): HistoryLine[] {
  return steps.map(([at, process, type, more]) => {
    const ofCall = OF_CALLS.includes(type) ? { call: '1' } : {};
    return { at, process, type, ...ofCall, ...more } as HistoryLine;
  });
}

const rulesBrokenBy = (...steps: readonly Step[]): string[] =>
  checkHistory(history(...steps)).map(({ rule }) => rule);

const HOLDS_FIRST: readonly Step[] = [
  [0, 'p', 'called', CALLED],
  [1, 'p', 'entered', entered(1)],
  [2, 'p', 'effect'],
];
const LEAVES: readonly Step[] = [
  [3, 'p', 'left'],
  [4, 'p', 'ended', { outcome: 'done' }],
];
const HOLDS_NEXT: readonly Step[] = [
  [1, 'q', 'called', CALLED],
  [5, 'q', 'entered', entered(2)],
  [6, 'q', 'left'],
  [7, 'q', 'ended', { outcome: 'done' }],
];

describe('a history', () => {
  it('in which one holds the key after the other is as it should be', () => {
    expect(rulesBrokenBy(...HOLDS_FIRST, ...LEAVES, ...HOLDS_NEXT)).toEqual([]);
  });

  it('in which somebody enters before the last effect of another is found', () => {
    const late: Step = [8, 'p', 'effect'];
    expect(rulesBrokenBy(...HOLDS_FIRST, ...HOLDS_NEXT, late, ...LEAVES)).toEqual([
      'two hold one key',
    ]);
  });

  it('in which the server has lost its data in between is excused, for one lease', () => {
    const lost: Step = [2, '', 'lost data'];
    const actsAt = (at: number): Step[] => [
      ...HOLDS_FIRST,
      lost,
      ...HOLDS_NEXT,
      [at, 'p', 'effect'],
    ];
    expect(rulesBrokenBy(...actsAt(600), ...LEAVES)).toEqual([]);
    expect(rulesBrokenBy(...actsAt(604), ...LEAVES)).toEqual(['two hold one key']);
  });

  it('in which the clock was set forward is excused until the end that the holder knows of', () => {
    const known: Step = [2, 'p', 'assured', { until: 2_000 }];
    const later: Step = [3, 'p', 'assured', { until: 9_000 }];
    const step: Step = [2, '', 'clock set forward'];
    const acts = (at: number, ...told: Step[]): string[] =>
      rulesBrokenBy(...HOLDS_FIRST, ...told, ...HOLDS_NEXT, [at, 'p', 'effect'], ...LEAVES);
    expect(acts(2_000, known, step)).toEqual([]);
    expect(acts(2_150, known, step, later)).toEqual(['two hold one key']);
    expect(acts(2_000, step, later)).toEqual(['two hold one key']);
  });

  it('in which the first of several keys was lost during the wait for the others is excused, for one lease', () => {
    const two = { fences: { a: 1, b: 1 }, believed: true };
    const enters = (at: number, ...more: Step[]): string[] =>
      rulesBrokenBy(
        [0, 'p', 'called', { ...CALLED, keys: ['a', 'b'] }],
        ...more,
        [3, 'q', 'called', CALLED],
        [4, 'q', 'entered', entered(2)],
        [at, 'p', 'entered', two],
        [at + 1, 'q', 'effect'],
        [at + 1, 'q', 'left'],
        [at + 1, 'q', 'ended', { outcome: 'done' }],
        [at + 1, 'p', 'left'],
        [at + 1, 'p', 'ended', { outcome: 'done' }],
      );
    const lost: Step = [2, '', 'clock set forward'];
    expect(enters(400, lost)).toEqual([]);
    expect(enters(600, lost)).toContain('two hold one key');
    expect(enters(400)).toContain('two hold one key');
  });

  it('in which a process closes before its call ends keeps the key for one lease more', () => {
    const tries = (at: number): string[] =>
      rulesBrokenBy(
        [0, 'p', 'called', { ...CALLED, leaseMs: 6_000 }],
        [1, 'p', 'entered', entered(1)],
        [4_000, 'p', 'closed'],
        [4_100, 'p', 'left'],
        [4_100, 'p', 'ended', { outcome: 'done' }],
        [at, 'q', 'called', { ...CALLED, waitMs: 0 }],
        [at + 1, 'q', 'ended', { outcome: 'busy' }],
      );
    expect(tries(9_000)).toEqual([]);
    expect(tries(12_100)).toEqual(['a free key is served']);
  });

  it('in which somebody knows that it has lost the lock is as it should be', () => {
    expect(rulesBrokenBy(...HOLDS_FIRST, ...HOLDS_NEXT, ...LEAVES)).toEqual([]);
  });

  it.each([1, 0])('whose second fence is %i, after 1, is found', (fence) => {
    const next = HOLDS_NEXT.map(([at, process, type, more]) => {
      return [at, process, type, type === 'entered' ? entered(fence) : more] as Step;
    });
    expect(rulesBrokenBy(...HOLDS_FIRST, ...LEAVES, ...next)).toEqual(['fences rise']);
  });

  it('with a call that never ends is found, unless its process has died', () => {
    expect(rulesBrokenBy(...HOLDS_FIRST)).toEqual(['every call ends']);
    expect(rulesBrokenBy(...HOLDS_FIRST, [3, 'p', 'died'])).toEqual([]);
  });

  it('with a wait that is a little too long is found, unless the process has just gone on and finds its connection cut', () => {
    const tries = (...before: Step[]): string[] =>
      rulesBrokenBy(
        [0, '', 'quiet network'],
        ...before,
        [20_000, 'p', 'called', { ...CALLED, waitMs: 0 }],
        [20_105, 'p', 'ended', { outcome: 'busy' }],
      );
    const cut: Step = [10_000, '', 'disturbed', { what: 'cut a connection' }];
    const paused: Step = [5_000, 'p', 'paused'];
    const continuedAt = (at: number): Step => [at, 'p', 'continued'];
    expect(tries(paused, cut, continuedAt(20_000))).not.toContain('a wait ends in time');
    expect(tries(paused, continuedAt(20_000))).toContain('a wait ends in time');
    expect(tries(paused, cut, continuedAt(17_000))).toContain('a wait ends in time');
    expect(tries(cut)).toContain('a wait ends in time');
  });

  it('with a wait far beyond its limit is found, unless its process stood still', () => {
    const called: Step = [0, 'p', 'called', CALLED];
    const ended: Step = [9_000, 'p', 'ended', { outcome: 'busy' }];
    expect(rulesBrokenBy(called, ended)).toContain('a wait ends in time');
    const paused: Step = [10, 'p', 'paused'];
    const continued: Step = [8_900, 'p', 'continued'];
    expect(rulesBrokenBy(called, paused, continued, ended)).toEqual([]);
  });

  it('in which a free key is not given to somebody who waits is found', () => {
    const waits: Step = [5, 'q', 'called', { ...CALLED, waitMs: 5_000 }];
    const gives = (at: number): Step[] => [
      [at, 'q', 'entered', entered(2)],
      [at, 'q', 'left'],
      [at, 'q', 'ended', { outcome: 'done' }],
    ];
    expect(rulesBrokenBy(...HOLDS_FIRST, ...LEAVES, waits, ...gives(2_500))).toEqual([
      'a free key is served',
    ]);
    expect(rulesBrokenBy(...HOLDS_FIRST, ...LEAVES, waits, ...gives(1_000))).toEqual([]);
    const disturbed: Step = [1_000, '', 'disturbed', { what: 'a test' }];
    expect(rulesBrokenBy(...HOLDS_FIRST, ...LEAVES, waits, disturbed, ...gives(2_500))).toEqual([]);
  });

  it('in which a copy of a command arrives late may find a free key busy, for as long as a place lasts', () => {
    const tries = (at: number): string[] =>
      rulesBrokenBy(
        ...HOLDS_FIRST,
        ...LEAVES,
        [100, '', 'arrived late', { key: 'a' }],
        [at, 'q', 'called', { ...CALLED, waitMs: 0 }],
        [at + 1, 'q', 'ended', { outcome: 'busy' }],
      );
    expect(tries(9_000)).toEqual([]);
    expect(tries(70_000)).toEqual(['a free key is served']);
  });

  it('in which who waits longer has asked anew on another connection may pass it', () => {
    const passes = (...more: readonly Step[]): string[] =>
      rulesBrokenBy(
        ...[
          [0, 'p', 'called', { ...CALLED, waitMs: 9_000 }] as Step,
          [1, 'p', 'entered', entered(1)] as Step,
          [100, 'q', 'called', { ...CALLED, waitMs: 9_000 }] as Step,
          ...more,
          [2_900, 'r', 'called', { ...CALLED, waitMs: 9_000 }] as Step,
          [3_000, 'p', 'left'] as Step,
          [3_001, 'p', 'ended', { outcome: 'done' }] as Step,
          [3_002, 'r', 'entered', entered(2)] as Step,
          [3_003, 'r', 'left'] as Step,
          [3_004, 'r', 'ended', { outcome: 'done' }] as Step,
          [3_005, 'q', 'entered', entered(3)] as Step,
          [3_006, 'q', 'left'] as Step,
          [3_007, 'q', 'ended', { outcome: 'done' }] as Step,
        ],
      );
    expect(passes()).toEqual(['who waits longer comes first']);
    expect(passes([1_500, '', 'arrived late', { key: 'a' }])).toEqual([]);
    expect(passes([1_500, '', 'arrived late', { key: 'b' }])).not.toEqual([]);
  });

  it('in which a key that was to be kept is had by another is found, unless its process had no answer', () => {
    const enters = (...more: readonly Step[]): string[] =>
      rulesBrokenBy(
        [0, 'p', 'called', { ...CALLED, keepMs: 2_000 }],
        [1, 'p', 'entered', entered(1)],
        [100, 'p', 'left'],
        [101, 'p', 'ended', { outcome: 'done' }],
        ...more,
        ...HOLDS_NEXT.map(([at, ...step]) => [at + 1_000, ...step] as Step),
      );
    expect(enters()).toEqual(['a key is kept']);
    const call = { call: '2' };
    const fails: readonly Step[] = [
      [102, 'p', 'called', { ...CALLED, ...call, keys: ['b'] }],
      [400, 'p', 'ended', { outcome: 'failed', ...call }],
    ];
    expect(enters(...fails)).toEqual([]);
    expect(enters(...fails.map(([at, , ...step]) => [at, 's', ...step] as Step))).not.toEqual([]);
    // Until it has reached the server again, only its lease keeps the key.
    const ran = (at: number, by: string, key: string): Step => [
      at,
      '',
      'ran',
      { by, keys: [`lock:{${key}}`] },
    ];
    expect(enters(ran(102, 'p', 'b'))).toEqual([]);
    expect(enters(ran(102, 'q', 'a'))).toEqual([]);
    expect(enters(ran(1_006, 'p', 'a'))).toEqual([]);
    expect(enters(ran(102, 'p', 'a'))).toEqual(['a key is kept']);
  });

  it('in which a process died with several places gives each of them its turn, and no more', () => {
    const waits = (until: number): string[] => {
      const call = (name: string): object => ({ call: name, permits: { a: 3 }, weight: 3 });
      return rulesBrokenBy(
        ...['1', '2', '3'].map((name): Step => [
          0,
          'p',
          'called',
          { ...CALLED, waitMs: 30_000, ...call(name) },
        ]),
        [1, 'p', 'entered', { fences: {}, slots: { a: 0 }, believed: true, call: '1' }],
        [100, 'p', 'died'],
        [9_000, 'q', 'called', { ...CALLED, waitMs: 30_000 }],
        [until, 'q', 'entered', entered(2)],
        [until, 'q', 'left'],
        [until, 'q', 'ended', { outcome: 'done' }],
      );
    };
    expect(waits(9_000 + 2_000 + 2 * 1_100 - 10)).toEqual([]);
    expect(waits(9_000 + 2_000 + 2 * 1_100 + 100)).toEqual(['a free key is served']);
  });

  it('in which a clock is set back keeps a key for longer that is kept after the work, and no other', () => {
    const waits = (keepMs: number, until: number, mode = {}, stepsAt = 400): string[] =>
      rulesBrokenBy(
        [0, 'p', 'called', { ...CALLED, keepMs }],
        [1, 'p', 'entered', entered(1)],
        [100, 'p', 'left'],
        [101, 'p', 'ended', { outcome: 'done' }],
        [keepMs === 0 ? 50 : stepsAt, '', 'clock set back', { byMs: 12_000 }],
        [9_000, 'q', 'called', { ...CALLED, ...mode, waitMs: 30_000 }],
        [until, 'q', 'entered', entered(2)],
        [until, 'q', 'left'],
        [until, 'q', 'ended', { outcome: 'done' }],
      );
    expect(waits(8_000, 20_100)).toEqual([]);
    expect(waits(8_000, 20_100, { mode: 'shared' })).toEqual([]);
    expect(waits(8_000, 22_500, { mode: 'shared' })).toEqual(['a free key is served']);
    expect(waits(8_000, 22_500)).toEqual(['a free key is served']);
    expect(waits(0, 11_500)).toEqual(['a free key is served']);
    // The server removes what is over a moment later.
    expect(waits(300, 12_300)).toEqual([]);
    expect(waits(300, 12_300, {}, 2_500)).toEqual(['a free key is served']);
  });

  it('in which somebody gets nothing after everything is calm is found', () => {
    const calm: Step = [0, '', 'calm'];
    const called: Step = [1, 'p', 'called', CALLED];
    const ended: Step = [900, 'p', 'ended', { outcome: 'busy' }];
    expect(rulesBrokenBy(calm, called, ended)).toContain('a free key is served');
  });

  it('in which somebody acts after the end of its lock, of which nobody told it, is found', () => {
    const acts = (until: number): Step[] => [
      [0, 'p', 'called', CALLED],
      [1, 'p', 'entered', entered(1)],
      [1, 'p', 'assured', { until: 500 }],
      [400, 'p', 'assured', { until }],
      [800, 'p', 'effect'],
      [801, 'p', 'left'],
      [802, 'p', 'ended', { outcome: 'done' }],
    ];
    expect(rulesBrokenBy(...acts(500))).toEqual(['a holder is told of its end']);
    expect(rulesBrokenBy(...acts(900))).toEqual([]);
  });

  it('with a wait that ends 1.5 s late is found, unless the server was disturbed', () => {
    const holds: readonly Step[] = [
      [0, 'p', 'called', CALLED],
      [1, 'p', 'entered', entered(1)],
    ];
    const waits = (until: number): Step[] => [
      [2, 'q', 'called', CALLED],
      [until, 'q', 'ended', { outcome: 'busy' }],
      [9_000, 'p', 'left'],
      [9_000, 'p', 'ended', { outcome: 'done' }],
    ];
    expect(rulesBrokenBy(...holds, ...waits(2_502))).toEqual(['a wait ends in time']);
    expect(rulesBrokenBy(...holds, ...waits(1_802))).toEqual([]);
    const disturbed: Step = [1, '', 'disturbed', { what: 'a test' }];
    expect(rulesBrokenBy(...holds, disturbed, ...waits(2_502))).toEqual([]);
  });

  it('in which who came later is served first is found', () => {
    const served = (...order: readonly string[]): Step[] => [
      ...HOLDS_FIRST,
      [10, 'q', 'called', { ...CALLED, waitMs: 9_000 }],
      [2_500, 'r', 'called', { ...CALLED, waitMs: 9_000 }],
      [3_000, 'p', 'left'],
      [3_000, 'p', 'ended', { outcome: 'done' }],
      ...order.flatMap((process, n): Step[] => [
        [3_001 + n, process, 'entered', entered(2 + n)],
        [3_001 + n, process, 'left'],
        [3_001 + n, process, 'ended', { outcome: 'done' }],
      ]),
    ];
    expect(rulesBrokenBy(...served('q', 'r'))).toEqual([]);
    expect(rulesBrokenBy(...served('r', 'q'))).toEqual(['who waits longer comes first']);
    const paused: Step[] = [
      [1_000, 'q', 'paused'],
      [1_900, 'q', 'continued'],
    ];
    const inOrderOfTime = [...served('r', 'q'), ...paused].sort(([a], [b]) => a - b);
    expect(rulesBrokenBy(...inOrderOfTime)).toEqual([]);
  });

  it('in which a key is idle for most of the time is found', () => {
    const handedOver = (idleMs: number): Step[] =>
      Array.from({ length: 13 }, (_, n) => n + 1).flatMap((n): Step[] => {
        const at = n * 1_000;
        const process = `p${n}`;
        return [
          [at - 1_500, process, 'called', { ...CALLED, waitMs: 9_000 }],
          [at - 1_000 + idleMs, process, 'entered', entered(n)],
          [at, process, 'left'],
          [at, process, 'ended', { outcome: 'done' }],
        ];
      });
    const inOrder = (idleMs: number): Step[] => handedOver(idleMs).sort(([a], [b]) => a - b);
    expect(rulesBrokenBy(...inOrder(850))).toEqual(['a hand-over is prompt']);
    expect(rulesBrokenBy(...inOrder(50))).toEqual([]);
  });

  it.each([500, 1_500])('in which the key of a dead holder stays with it is found', (leaseMs) => {
    const called = { ...CALLED, leaseMs, waitMs: 20_000 };
    const given = (at: number, ...knows: Step[]): Step[] => [
      [0, 'p', 'called', called],
      [1, 'p', 'entered', entered(1)],
      ...knows,
      [2, 'q', 'called', called],
      [2_000, 'p', 'died'],
      [at, 'q', 'entered', entered(2)],
      [at, 'q', 'left'],
      [at, 'q', 'ended', { outcome: 'done' }],
    ];
    expect(rulesBrokenBy(...given(2_000 + leaseMs + 100))).toEqual([]);
    expect(rulesBrokenBy(...given(2_000 + 3 * leaseMs))).toContain(
      'a dead holder keeps a key for one lease',
    );
    const longer: Step = [2, 'p', 'assured', { until: 2_000 + 3 * leaseMs }];
    expect(rulesBrokenBy(...given(2_000 + 3 * leaseMs, longer))).toEqual([]);
  });

  it('in which a key is not served at once is found if the network is quiet', () => {
    const quiet: Step = [0, '', 'quiet network'];
    const waits: Step = [3, 'q', 'called', CALLED];
    const given = (at: number): Step[] => [
      [at, 'q', 'entered', entered(2)],
      [at, 'q', 'left'],
      [at, 'q', 'ended', { outcome: 'done' }],
    ];
    const served = (at: number): Step[] => [...HOLDS_FIRST, waits, ...LEAVES, ...given(at)];
    expect(rulesBrokenBy(quiet, ...served(30))).toEqual([]);
    expect(rulesBrokenBy(quiet, ...served(90))).toEqual(['a free key is served']);
    expect(rulesBrokenBy(...served(90))).toEqual([]);
    const dead: Step = [2, 'r', 'died'];
    expect(rulesBrokenBy(quiet, dead, ...served(90))).toEqual([]);
  });

  it('in which a lost lease is handed on before its process was told is none, for one lease', () => {
    const second = { call: '2' };
    const handedOn = (at: number, fence = 1): Step[] => [
      [0, 'p', 'called', CALLED],
      [1, 'p', 'entered', entered(1)],
      [2, '', 'clock set forward'],
      [3, 'q', 'called', CALLED],
      [4, 'q', 'entered', entered(20)],
      [5, 'q', 'left'],
      [6, 'q', 'ended', { outcome: 'done' }],
      [7, 'p', 'called', { ...CALLED, ...second }],
      [at, 'p', 'left'],
      [at, 'p', 'ended', { outcome: 'done' }],
      [at, 'p', 'entered', { ...entered(1 + fence), ...second }],
      [at + 1, 'p', 'left', second],
      [at + 1, 'p', 'ended', { outcome: 'done', ...second }],
    ];
    const { leaseMs } = CALLED;
    const whileHeld = (at: number): Step[] => {
      const steps = handedOn(at).filter(
        ([, process, type]) => process !== 'q' || type === 'called',
      );
      const holds: Step = [at - 1, 'q', 'entered', entered(20)];
      const goesOn: Step[] = [
        [at + 1, 'q', 'effect'],
        [at + 1, 'q', 'left'],
        [at + 1, 'q', 'ended', { outcome: 'done' }],
      ];
      const i = steps.findIndex(([, process, type]) => process === 'p' && type === 'left');
      return [...steps.slice(0, i), [at - 1, 'p', 'left'], holds, ...steps.slice(i + 1), ...goesOn];
    };
    expect(rulesBrokenBy(...whileHeld(20))).toEqual([]);
    expect(rulesBrokenBy(...whileHeld(2 * leaseMs))).toContain('two hold one key');
    expect(rulesBrokenBy(...handedOn(20))).not.toContain('fences rise');
    expect(rulesBrokenBy(...handedOn(2 * leaseMs))).toContain('fences rise');
    expect(rulesBrokenBy(...handedOn(2 * leaseMs, 30))).not.toContain('fences rise');
  });

  it('in which a call fails is found if nothing was disturbed, and no packet lost', () => {
    const quiet: Step = [0, '', 'quiet network'];
    const fails: Step = [3, 'p', 'ended', { outcome: 'failed', error: 'LOCK_LOST' }];
    const rules = ['no call fails without a reason'];
    expect(rulesBrokenBy(quiet, ...HOLDS_FIRST, fails)).toEqual(rules);
    expect(rulesBrokenBy(...HOLDS_FIRST, fails)).toEqual([]);
    const disturbed: Step = [1, '', 'disturbed', { what: 'a test' }];
    expect(rulesBrokenBy(quiet, disturbed, ...HOLDS_FIRST, fails)).toEqual([]);
  });

  it('in which a key is said to be busy that nobody has is found', () => {
    const tries: Step[] = [
      [5_000, 'q', 'called', { ...CALLED, waitMs: 0 }],
      [5_001, 'q', 'ended', { outcome: 'busy' }],
    ];
    expect(rulesBrokenBy(...tries)).toEqual(['a free key is served']);
    expect(rulesBrokenBy([4_999, '', 'taken away', { key: 'a' }], ...tries)).toEqual([]);
    const holds: Step[] = [
      [4_000, 'p', 'called', CALLED],
      [4_001, 'p', 'entered', entered(1)],
    ];
    const leaves: Step = [6_000, 'p', 'ended', { outcome: 'done' }];
    expect(rulesBrokenBy(...holds, ...tries, leaves)).toEqual([]);
  });

  it('in which a key is busy that a dead process has kept for its next call is none, until its lease is over', () => {
    const tries = (at: number): Step[] => [
      [1, 'p', 'called', CALLED],
      [2, 'p', 'entered', entered(1)],
      [50, 'p', 'left'],
      [51, 'p', 'ended', { outcome: 'done' }],
      [200, 'p', 'died'],
      [at, 'q', 'called', { ...CALLED, waitMs: 0 }],
      [at + 1, 'q', 'ended', { outcome: 'busy' }],
    ];
    const { leaseMs } = CALLED;
    expect(rulesBrokenBy(...tries(200 + leaseMs - 100))).toEqual([]);
    expect(rulesBrokenBy(...tries(200 + leaseMs + 2_100))).toEqual(['a free key is served']);
  });

  it('in which a lock is lost because the memory is full is found, if it was held before', () => {
    const held = (since: number): Step[] => [
      [0, '', 'quiet network'],
      [since, 'p', 'called', CALLED],
      [since + 1, 'p', 'entered', entered(1)],
      [5_000, '', 'memory full', { until: 7_000 }],
      [6_000, 'p', 'ended', { outcome: 'failed' }],
    ];
    const inOrder = (since: number): Step[] => held(since).sort(([a], [b]) => a - b);
    expect(rulesBrokenBy(...inOrder(1_000))).toEqual(['no call fails without a reason']);
    expect(rulesBrokenBy(...inOrder(5_100))).toEqual([]);
  });

  it('in which a call waits for a key that is only kept may fail because the memory is full', () => {
    const fails = (keepMs: number): Step[] => [
      [0, '', 'quiet network'],
      [1, 'p', 'called', { ...CALLED, keepMs }],
      [2, 'p', 'entered', entered(1)],
      [50, 'p', 'left'],
      [51, 'p', 'ended', { outcome: 'done' }],
      [1_000, 'q', 'called', { ...CALLED, waitMs: 20_000 }],
      [5_000, '', 'memory full', { until: 30_000 }],
      [21_000, 'q', 'ended', { outcome: 'failed' }],
    ];
    expect(rulesBrokenBy(...fails(9_000))).not.toContain('no call fails without a reason');
    expect(rulesBrokenBy(...fails(3_000))).toContain('no call fails without a reason');
  });

  it('in which a released key stays free is found although the memory is full', () => {
    const waits = (since: number): Step[] => [
      [0, 'p', 'called', CALLED],
      [1, 'p', 'entered', entered(1)],
      [since, 'q', 'called', { ...CALLED, waitMs: 20_000 }],
      [5_000, '', 'memory full', { until: 12_000 }],
      [6_000, 'p', 'left'],
      [6_000, 'p', 'ended', { outcome: 'done' }],
      [9_000, 'q', 'entered', entered(2)],
      [9_000, 'q', 'left'],
      [9_000, 'q', 'ended', { outcome: 'done' }],
    ];
    const inOrder = (since: number): Step[] => waits(since).sort(([a], [b]) => a - b);
    expect(rulesBrokenBy(...inOrder(1_000))).toEqual(['a free key is served']);
    expect(rulesBrokenBy(...inOrder(5_500))).toEqual([]);
  });

  it('in which two hold a key that was taken away is found, unless nobody could be told', () => {
    const late: Step[] = [
      [1_500, 'p', 'effect'],
      [1_500, 'p', 'left'],
      [1_500, 'p', 'ended', { outcome: 'done' }],
    ];
    const both = (...more: readonly Step[]): Step[] =>
      [
        ...HOLDS_FIRST,
        [100, '', 'taken away', { key: 'a' }] as Step,
        [101, 'q', 'called', CALLED] as Step,
        [1_101, 'q', 'entered', entered(2)] as Step,
        [1_102, 'q', 'left'] as Step,
        [1_103, 'q', 'ended', { outcome: 'done' }] as Step,
        ...late,
        ...more,
      ].sort(([a], [b]) => a - b);
    expect(rulesBrokenBy(...both())).toEqual(['two hold one key']);
    const disturbed: Step = [99, '', 'disturbed', { what: 'a test', until: 200 }];
    expect(rulesBrokenBy(...both(disturbed))).toEqual(['two hold one key']);
    const early = both(disturbed).map(([at, ...rest]): Step => [at === 1_500 ? 550 : at, ...rest]);
    expect(rulesBrokenBy(...early)).toEqual([]);
  });

  it('in which somebody enters a key that is kept is found', () => {
    const kept = (keepMs: number): Step[] => [
      [0, 'p', 'called', { ...CALLED, keepMs }],
      [1, 'p', 'entered', entered(1)],
      ...LEAVES,
      ...HOLDS_NEXT,
    ];
    const inOrder = (keepMs: number): Step[] => kept(keepMs).sort(([a], [b]) => a - b);
    expect(rulesBrokenBy(...inOrder(300))).toEqual(['a key is kept']);
    expect(rulesBrokenBy(...inOrder(3))).toEqual([]);
  });

  it('in which who had a key that was taken away acts on is found if the network is quiet', () => {
    const acts = (until: number): Step[] => [
      ...HOLDS_FIRST,
      [100, '', 'taken away', { key: 'a' }],
      [until, 'p', 'effect'],
      [until, 'p', 'left'],
      [until, 'p', 'ended', { outcome: 'done' }],
    ];
    const quiet: Step = [0, '', 'quiet network'];
    expect(rulesBrokenBy(quiet, ...acts(120))).toEqual([]);
    expect(rulesBrokenBy(quiet, ...acts(400))).toEqual(['a holder is told of its end']);
    expect(rulesBrokenBy(...acts(400))).toEqual([]);
  });

  describe('with readers', () => {
    const READS = { ...CALLED, waitMs: 9_000, mode: 'shared' };
    const WRITES = { ...CALLED, waitMs: 9_000 };
    const enters = (at: number, process: string, fence: number): Step => [
      at,
      process,
      'entered',
      entered(fence),
    ];
    const leaves = (at: number, process: string): Step[] => [
      [at, process, 'left'],
      [at, process, 'ended', { outcome: 'done' }],
    ];
    const inOrder = (...steps: readonly Step[]): string[] =>
      rulesBrokenBy(...[...steps].sort(([a], [b]) => a - b));

    const holds = (from: number, until: number, process: string, fence: number, mode: object) => [
      [from, process, 'called', mode] as Step,
      enters(from, process, fence),
      [until, process, 'effect'] as Step,
      ...leaves(until, process),
    ];

    it('in which any number read at once is as it should be', () => {
      const reads = ['p', 'q', 'r'].flatMap((process, i) => holds(i, 50 + i, process, i, READS));
      expect(inOrder(...reads)).toEqual([]);
    });

    it.each([
      ['writes while another one reads', READS, WRITES],
      ['reads while another one writes', WRITES, READS],
    ])('in which somebody %s is found', (_, first, second) => {
      const both = [...holds(0, 50, 'p', 1, first), ...holds(20, 60, 'q', 2, second)];
      expect(inOrder(...both)).toEqual(['two hold one key']);
      const inTurn = [...holds(0, 50, 'p', 1, first), ...holds(51, 60, 'q', 2, second)];
      expect(inOrder(...inTurn)).toEqual([]);
    });

    it.each([
      ['before', 2.5, 5],
      ['after', 6, 5],
    ])(
      'in which a reader joins a lost lease, %s a writer came, is excused for one lease',
      (_, joinsAt, writesAt) => {
        const second = { call: '2' };
        const joins = (at: number, until: number, fence = 1): string[] =>
          inOrder(
            [0, 'p', 'called', READS],
            enters(1, 'p', 1),
            ...leaves(2_000, 'p'),
            [2, '', 'clock set forward'],
            [at, 'p', 'called', { ...READS, ...second }],
            [at, 'p', 'entered', { ...entered(fence), ...second }],
            ...holds(writesAt, 1_500, 'q', 20, WRITES),
            [until, 'p', 'effect', second],
            [until, 'p', 'left', second],
            [until, 'p', 'ended', { outcome: 'done', ...second }],
          );
        expect(joins(joinsAt, 300)).toEqual([]);
        expect(joins(joinsAt < writesAt ? joinsAt : 900, 901)).toContain('two hold one key');
        expect(joins(joinsAt, 300, 2)).toContain('two hold one key');
      },
    );

    it('whose reader has not a higher fence than each writer before is found', () => {
      const then = (fence: number): string[] =>
        inOrder(...holds(0, 10, 'p', 5, WRITES), ...holds(20, 30, 'q', fence, READS));
      expect(then(6)).toEqual([]);
      expect(then(5)).toEqual(['fences rise']);
      expect(then(4)).toEqual(['fences rise']);
    });

    it('whose writer has not a higher fence than each reader before is found', () => {
      const then = (fence: number): string[] =>
        inOrder(
          ...holds(0, 10, 'p', 6, READS),
          ...holds(1, 10, 'q', 5, READS),
          ...holds(20, 30, 'r', fence, WRITES),
        );
      expect(then(7)).toEqual([]);
      expect(then(6)).toEqual(['fences rise']);
    });

    /** p reads; q waits to write from 3,000 on; r wants to read, and does while q waits. */
    const passing = (came: number, reads: number, ...more: readonly Step[]): string[] =>
      inOrder(
        [0, 'p', 'called', READS],
        enters(0, 'p', 1),
        ...leaves(16_000, 'p'),
        [3_000, 'q', 'called', { ...WRITES, waitMs: 20_000 }],
        [came, 'r', 'called', READS],
        enters(reads, 'r', 2),
        ...leaves(reads + 1, 'r'),
        enters(16_001, 'q', 9),
        ...leaves(16_002, 'q'),
        ...more,
      );

    it('in which a reader that comes later passes a writer that waits is found', () => {
      expect(passing(9_000, 9_001)).toEqual(['readers do not pass a writer']);
      expect(passing(2_900, 2_900)).toEqual([]);
      const dead: Step = [8_000, 's', 'died'];
      expect(passing(9_000, 9_001, dead)).toEqual([]);
    });

    it('in which a writer is passed by the batch of readers that waited before it is as it should be', () => {
      /** w writes; s waits to read, q to write; r comes while both wait, or after the turn of s. */
      const batch = (came: number, reads: number): string[] =>
        inOrder(
          ...holds(0, 8_000, 'w', 1, { ...WRITES, leaseMs: 9_000 }),
          [1_000, 's', 'called', READS],
          [4_000, 'q', 'called', { ...WRITES, waitMs: 20_000 }],
          [came, 'r', 'called', READS],
          enters(8_001, 's', 2),
          enters(reads, 'r', 3),
          ...leaves(reads + 500, 'r'),
          ...leaves(reads + 500, 's'),
          enters(reads + 501, 'q', 4),
          ...leaves(reads + 502, 'q'),
        );
      expect(batch(7_000, 8_002)).toEqual([]);
      expect(batch(11_000, 11_001)).toEqual(['readers do not pass a writer']);
    });

    it('in which a writer passes one that waits longer, or a reader that does, is found', () => {
      const passes = (first: object): string[] =>
        inOrder(
          ...holds(0, 5_000, 'p', 1, WRITES),
          [1_000, 'q', 'called', first],
          [4_000, 'r', 'called', WRITES],
          enters(5_001, 'r', 2),
          ...leaves(5_010, 'r'),
          enters(5_011, 'q', 3),
          ...leaves(5_012, 'q'),
        );
      expect(passes(WRITES)).toEqual(['who waits longer comes first']);
      expect(passes(READS)).toEqual(['who waits longer comes first']);
    });

    it('in which a reader waits although only others read is found, unless a writer waits', () => {
      const waits = (...more: readonly Step[]): string[] =>
        inOrder(
          ...holds(0, 8_000, 'p', 1, READS),
          [1_000, 'q', 'called', READS],
          enters(4_000, 'q', 2),
          ...leaves(4_001, 'q'),
          ...more,
        );
      expect(waits()).toEqual(['a free key is served']);
      const writer: Step[] = [
        [900, 'r', 'called', WRITES],
        [3_900, 'r', 'ended', { outcome: 'busy' }],
      ];
      expect(waits(...writer)).toEqual([]);
    });

    it('in which a reader is told that a key is busy which only others read is found', () => {
      const tries = (mode: object): string[] =>
        inOrder(
          ...holds(0, 8_000, 'p', 1, READS),
          [5_000, 'q', 'called', { ...mode, waitMs: 0 }],
          [5_001, 'q', 'ended', { outcome: 'busy' }],
        );
      expect(tries(READS)).toEqual(['a free key is served']);
      expect(tries(WRITES)).toEqual([]);
    });

    it('in which a dead process that waited is granted the key in each of its places is as it should be', () => {
      const after = (ms: number, mode: object): string[] =>
        inOrder(
          [0, 'p', 'called', mode],
          [100, 'p', 'died'],
          [30_000, 'q', 'called', { ...WRITES, waitMs: 60_000 }],
          enters(30_000 + ms, 'q', 9),
          ...leaves(30_001 + ms, 'q'),
        );
      expect(after(4_100, READS)).toEqual([]);
      expect(after(4_300, READS)).toEqual(['a free key is served']);
      expect(after(4_100, WRITES)).toEqual(['a free key is served']);
    });

    it('in which a dead reader keeps out a writer after its lease is found, unless others read', () => {
      const dies = (...more: readonly Step[]): string[] =>
        inOrder(
          [0, 'p', 'called', READS],
          enters(1, 'p', 1),
          [2, 'q', 'called', WRITES],
          [2_000, 'p', 'died'],
          enters(6_000, 'q', 9),
          ...leaves(6_001, 'q'),
          ...more,
        );
      expect(dies()).toContain('a dead holder keeps a key for one lease');
      expect(dies(...holds(1, 5_990, 'r', 2, READS))).toEqual([]);
    });
  });

  describe('with permits', () => {
    const wants = (most: number, weight = 1): object => ({
      ...CALLED,
      waitMs: 9_000,
      permits: { a: most },
      weight,
    });
    const enters = (at: number, process: string, slot: number): Step => [
      at,
      process,
      'entered',
      { fences: {}, slots: { a: slot }, believed: true },
    ];
    const leaves = (at: number, process: string): Step[] => [
      [at, process, 'left'],
      [at, process, 'ended', { outcome: 'done' }],
    ];
    const holds = (
      [from, until]: readonly [number, number],
      process: string,
      slot: number,
      wanted: object,
    ): Step[] => [
      [from, process, 'called', wanted],
      enters(from, process, slot),
      [until, process, 'effect'],
      ...leaves(until, process),
    ];
    const inOrder = (...steps: readonly Step[]): string[] =>
      rulesBrokenBy(...[...steps].sort(([a], [b]) => a - b));

    it('in which as many are held as there are is as it should be', () => {
      const light = ['p', 'q'].flatMap((process, i) => holds([i, 50], process, i, wants(4)));
      expect(inOrder(...light, ...holds([3, 50], 'r', 2, wants(4, 2)))).toEqual([]);
    });

    it('in which more are held than there are is found, unless one of them was lost', () => {
      const held = [
        ...holds([0, 50], 'p', 0, wants(4)),
        ...holds([1, 50], 'q', 1, wants(4, 2)),
        ...holds([3, 50], 'r', 2, wants(4, 2)),
      ];
      expect(inOrder(...held)).toEqual(['too many hold one key']);
      expect(inOrder(...held, [2, '', 'lost data'])).toEqual([]);
    });

    it('in which callers have different numbers is judged by the largest', () => {
      const first = holds([0, 50], 'p', 0, wants(1));
      expect(inOrder(...first, ...holds([1, 50], 'q', 1, wants(2)))).toEqual([]);
      expect(inOrder(...first, ...holds([1, 50], 'q', 1, wants(1)))).toEqual([
        'too many hold one key',
        'two have one slot',
      ]);
    });

    it.each([0, 2, -1])('in which a second holder of two has slot %i is found', (slot) => {
      const both = [...holds([0, 50], 'p', 0, wants(2)), ...holds([1, 50], 'q', slot, wants(2))];
      expect(inOrder(...both)).toEqual(['two have one slot']);
    });

    it.each([
      ['exclusively', CALLED],
      ['to read', { ...CALLED, mode: 'shared' }],
    ])('in which somebody has the key %s beside a permit is found', (_, other) => {
      const permit = holds([0, 50], 'p', 0, wants(2));
      const beside: Step[] = [
        [1, 'q', 'called', other],
        [2, 'q', 'entered', entered(1)],
        [40, 'q', 'effect'],
        ...leaves(40, 'q'),
      ];
      expect(inOrder(...permit, ...beside)).toEqual(['two hold one key']);
    });

    it('in which somebody waits beside a permit that nobody has is found, unless it needs more', () => {
      const waits = (weight: number, ...more: readonly Step[]): string[] =>
        inOrder(
          ...holds([0, 8_000], 'p', 0, wants(3, 2)),
          [1_000, 'q', 'called', wants(3, weight)],
          enters(8_001, 'q', 1),
          ...leaves(8_002, 'q'),
          ...more,
        );
      expect(waits(1)).toEqual(['no permit is idle']);
      expect(waits(2)).toEqual([]);
      const heavy: Step[] = [[900, 'r', 'called', wants(3, 2)], enters(8_000, 'r', 0)];
      expect(waits(1, ...heavy, ...leaves(8_000, 'r'))).toEqual([]);
    });

    it('in which one that died keeps its permit for longer than its lease is found', () => {
      const gets = (at: number): string[] =>
        inOrder(
          ...holds([0, 20_000], 'p', 0, wants(2)),
          [1, 'q', 'called', wants(2)],
          enters(1, 'q', 1),
          [5_000, 'q', 'died'],
          [4_000, 'r', 'called', { ...wants(2), waitMs: 30_000 }],
          enters(at, 'r', 1),
          ...leaves(at, 'r'),
        );
      expect(gets(7_900)).toEqual([]);
      expect(gets(10_000)).toEqual(['no permit is idle']);
    });

    it('in which a small one passes a great one that waits for longer is found', () => {
      const passes = (came: number): string[] =>
        inOrder(
          ...holds([0, 9_000], 'p', 0, wants(3, 2)),
          [1_000, 'q', 'called', { ...wants(3, 2), waitMs: 20_000 }],
          [came, 'r', 'called', wants(3)],
          enters(6_000, 'r', 1),
          ...leaves(6_010, 'r'),
          enters(9_001, 'q', 0),
          ...leaves(9_010, 'q'),
        );
      expect(passes(5_000)).toEqual(['who waits longer comes first']);
      expect(passes(900)).toEqual([]);
    });

    it('in which a permit is said to be busy that nobody has is found', () => {
      const tries = (weight: number): string[] =>
        inOrder(
          ...holds([0, 8_000], 'p', 0, wants(3, 2)),
          [5_000, 'q', 'called', { ...wants(3, weight), waitMs: 0 }],
          [5_001, 'q', 'ended', { outcome: 'busy' }],
        );
      expect(tries(1)).toEqual(['a free key is served']);
      expect(tries(2)).toEqual([]);
    });
  });

  describe('in which a lock is handed over', () => {
    const DETACHES: readonly Step[] = [
      ...HOLDS_FIRST,
      [3, 'p', 'detaches', { forMs: 9_000 }],
      [4, 'p', 'detached', { text: 't' }],
      [5, 'p', 'ended', { outcome: 'done' }],
    ];
    const ADOPTS = { ...CALLED, waitMs: 0, adopts: 't' };
    const adopts = (at: number, process: string, fence: number, more: object = {}): Step[] => [
      [at, process, 'called', ADOPTS],
      [at + 1, process, 'entered', { ...entered(fence), ...more }],
      [at + 9, process, 'effect'],
      [at + 9, process, 'left'],
      [at + 9, process, 'ended', { outcome: 'done' }],
    ];
    const refused = (at: number, process: string): Step[] => [
      [at, process, 'called', ADOPTS],
      [at + 1, process, 'ended', { outcome: 'not adopted' }],
    ];
    const takes = (at: number, process: string): Step[] => [
      [at, process, 'called', CALLED],
      [at + 1, process, 'entered', entered(9)],
      [at + 2, process, 'left'],
      [at + 2, process, 'ended', { outcome: 'done' }],
    ];
    const inOrder = (...steps: readonly Step[]): string[] =>
      rulesBrokenBy(...[...steps].sort(([a], [b]) => a - b));

    it('to one of two that adopt it is as it should be', () => {
      expect(inOrder(...DETACHES, ...adopts(100, 'q', 2), ...refused(101, 'r'))).toEqual([]);
      expect(inOrder(...DETACHES, ...adopts(100, 'q', 2), ...takes(200, 'r'))).toEqual([]);
    });

    it('to two, one after the other, is found, unless the server has forgotten the first', () => {
      const both = [...adopts(100, 'q', 2), ...adopts(200, 'r', 3)];
      expect(inOrder(...DETACHES, ...both)).toEqual(['a text is adopted once']);
      expect(inOrder(...DETACHES, ...both, [150, '', 'lost data'])).toEqual([]);
    });

    it('while the first still acts is found', () => {
      const still: Step = [105, 'p', 'effect'];
      expect(inOrder(...DETACHES, ...adopts(100, 'q', 2), still)).toEqual(['two hold one key']);
    });

    it('with a fence that is not greater is found', () => {
      expect(inOrder(...DETACHES, ...adopts(100, 'q', 1))).toEqual(['fences rise']);
    });

    it('and another one gets it first is found, unless its time was over', () => {
      expect(inOrder(...DETACHES, ...takes(8_000, 'r'))).toEqual(['a key is kept']);
      expect(inOrder(...DETACHES, ...takes(9_500, 'r'))).toEqual([]);
      const afterwards = [...adopts(100, 'q', 2), ...takes(8_000, 'r')];
      expect(inOrder(...DETACHES, ...afterwards)).toEqual([]);
    });

    it('to nobody, although somebody asks in time, is found', () => {
      expect(inOrder(...DETACHES, ...refused(8_000, 'q'))).toEqual([
        'a detached lock can be adopted',
      ]);
      expect(inOrder(...DETACHES, ...refused(9_500, 'q'))).toEqual([]);
      expect(
        inOrder(...DETACHES, [7_000, '', 'taken away', { key: 'a' }], ...refused(8_000, 'q')),
      ).toEqual([]);
    });

    it('and nobody gets it after its time is found', () => {
      const waits = (until: number): string[] =>
        inOrder(
          ...DETACHES,
          [5_000, 'q', 'called', { ...CALLED, waitMs: 20_000 }],
          [until, 'q', 'entered', entered(2)],
          [until, 'q', 'left'],
          [until, 'q', 'ended', { outcome: 'done' }],
        );
      expect(waits(10_000)).toEqual([]);
      expect(waits(12_000)).toEqual(['a free key is served']);
    });
  });
});

describe('a history with a quorum of three', () => {
  const QUORUM: Step = [0, '', 'quorum', { size: 3 }];
  const away = (node: string, until: number): Step => [
    0,
    '',
    'node away',
    { node, what: 'test', until },
  ];
  const one = away('lock-1', 90_000);
  const most = [one, away('lock-2', 90_000)];

  it('in which nodes are away excuses no second holder, however many they are', () => {
    const late: Step = [8, 'p', 'effect'];
    const found = rulesBrokenBy(QUORUM, ...most, ...HOLDS_FIRST, ...HOLDS_NEXT, late, ...LEAVES);
    expect(found).toEqual(['two hold one key']);
  });

  it('in which one node is away lets a free key wait for two seconds more', () => {
    const waits = (ms: number, ...before: Step[]): string[] =>
      rulesBrokenBy(
        QUORUM,
        [0, '', 'quiet network'],
        ...before,
        [10_000, 'p', 'called', { ...CALLED, waitMs: 20_000 }],
        [10_000 + ms, 'p', 'entered', entered(1)],
        [10_001 + ms, 'p', 'left'],
        [10_001 + ms, 'p', 'ended', { outcome: 'done' }],
      );
    expect(waits(190)).toEqual([]);
    expect(waits(210)).toEqual(['a free key is served']);
    expect(waits(2_190, one)).toEqual([]);
    expect(waits(2_210, one)).toEqual(['a free key is served']);
    expect(waits(9_000, ...most)).toEqual([]);
  });

  it('in which one node is away lets no call fail, and with two of them it may', () => {
    const fails = (...before: Step[]): string[] =>
      rulesBrokenBy(
        QUORUM,
        [0, '', 'quiet network'],
        ...before,
        [10_000, 'p', 'called', CALLED],
        [10_100, 'p', 'ended', { outcome: 'failed' }],
      );
    expect(fails(one)).toEqual(['no call fails without a reason']);
    expect(fails(one, one)).toEqual(['no call fails without a reason']); // it is one node
    expect(fails(...most)).toEqual([]);
  });

  it('in which numbers were lost excuses the fences from there on', () => {
    const lost: Step = [4, '', 'numbers lost'];
    const next = (fence: number): readonly Step[] =>
      HOLDS_NEXT.map((step) =>
        step[2] === 'entered' ? [5, 'q', 'entered', entered(fence)] : step,
      );
    expect(rulesBrokenBy(QUORUM, ...HOLDS_FIRST, ...LEAVES, ...next(1))).toEqual(['fences rise']);
    expect(rulesBrokenBy(QUORUM, ...HOLDS_FIRST, ...LEAVES, lost, ...next(1))).toEqual([]);
  });
});
