/** What the lab makes of what it has seen. */
import { afterEach, describe, expect, it } from '@jest/globals';
import { SALE } from '../src/accidents.js';
import { deviationOf } from '../src/expected.js';
import { findingsOf } from '../src/run/findings.js';
import { missedOf } from '../src/run/goal.js';
import type { Trial } from '../src/run/trial.js';
import { pairsOf, runTrials } from '../src/run/trials.js';
import { STAGES } from '../src/stages/index.js';
import type { EventKind, LabEvent } from '../src/work/events.js';

const right = { start: 100, left: 80, sold: 20 };

function event(at: number, lane: string, kind: EventKind, text?: string): LabEvent {
  return text === undefined ? { at, lane, kind } : { at, lane, kind, text };
}

describe('the judge', () => {
  it('finds nothing where holds follow each other', () => {
    const events = [event(1, 'A', 'hold'), event(2, 'A', 'release'), event(3, 'B', 'hold')];
    expect(findingsOf(events, right, [])).toEqual([]);
  });

  it('finds two holders, and that nobody told the first', () => {
    const events = [event(1, 'A', 'hold'), event(2, 'B', 'hold'), event(3, 'A', 'release')];
    expect(findingsOf(events, right, [])).toEqual(['two holders', 'nobody was told']);
  });

  it('ends a hold when its holder is told', () => {
    const events = [event(1, 'A', 'hold'), event(2, 'A', 'told'), event(3, 'B', 'hold')];
    expect(findingsOf([...events, event(4, 'A', 'failed')], right, [])).toEqual([]);
  });

  it('ends the hold of a paused process when it stands still, unless it goes on or believes', () => {
    const woken = (...after: readonly LabEvent[]): string[] => {
      const paused = [event(1, 'A', 'hold'), event(2, 'A', 'paused'), event(5, 'B', 'hold')];
      return findingsOf([...paused, event(7, 'A', 'resumed'), ...after], right, []);
    };
    expect(woken(event(8, 'A', 'commit'), event(9, 'A', 'refused'))).toEqual([]);
    const both = ['two holders', 'nobody was told'];
    expect(woken(event(8, 'A', 'committed'), event(9, 'A', 'release'))).toEqual(both);
    expect(woken(event(8, 'A', 'believes'), event(9, 'A', 'told'))).toEqual(['two holders']);
  });

  it('finds that a holder was told late, by its release, if another one came in before it', () => {
    const lost = [event(1, 'A', 'hold'), event(2, 'B', 'hold'), event(3, 'A', 'release')];
    const late = [...lost, event(4, 'A', 'told late', 'NotAcquired')];
    expect(findingsOf(late, right, [])).toEqual(['two holders', 'told late']);
    // What B is told says nothing to A.
    const other = [...lost, event(4, 'B', 'release'), event(5, 'B', 'told late')];
    expect(findingsOf(other, right, [])).toEqual(['two holders', 'nobody was told']);
  });

  it('finds nothing if a release fails after a hold that nobody has disturbed', () => {
    const events = [event(1, 'A', 'hold'), event(2, 'A', 'release'), event(3, 'A', 'told late')];
    expect(findingsOf([...events, event(4, 'B', 'hold')], right, [])).toEqual([]);
  });

  it('finds a stock that does not account for what was sold', () => {
    expect(findingsOf([], { ...right, left: 90 }, [])).toEqual(['stock wrong']);
  });
});

describe('a goal', () => {
  const waited = (ms: number): LabEvent[] => [event(0, 'A', 'wait'), event(ms, 'A', 'hold')];

  it('is reached if enough is sold, soon enough, and nobody is turned away', () => {
    expect(missedOf({ sold: 20, waitMs: 1_000 }, waited(1_000), right)).toEqual([]);
  });

  it('is missed if too little is sold, however safely', () => {
    expect(missedOf({ sold: 100 }, [], { start: 100, left: 70, sold: 30 })).toEqual([
      '30 pieces were sold, and not 100',
    ]);
  });

  it('is missed if somebody waits for too long, also in vain', () => {
    const late = ['somebody waited 1.1 s, and not 1.0 s at most'];
    expect(missedOf({ sold: 20, waitMs: 1_000 }, waited(1_100), right)).toEqual(late);
    const inVain = [event(0, 'A', 'wait'), event(1_100, '', 'mark')];
    expect(missedOf({ sold: 20, waitMs: 1_000 }, inVain, right)).toEqual(late);
  });

  it('is missed if more are refused than the accident explains', () => {
    const refused = [event(1, 'A', 'refused'), event(2, 'B', 'refused')];
    expect(missedOf({ sold: 20, refused: 2 }, refused, right)).toEqual([]);
    expect(missedOf({ sold: 20, refused: 1 }, refused, right)).toEqual([
      '2 calls were refused, and 1 may be',
    ]);
  });

  it('asks for ten sales, from every lock that can wait', () => {
    expect(SALE.goal).toMatchObject({ sold: 100 });
    const goal = { findings: ['goal missed'], accident: 'sale' } as unknown as Trial;
    const cannotWait = ['5', '11', '16'];
    for (const { id: stage } of STAGES.filter(({ id }) => !cannotWait.includes(id))) {
      expect(deviationOf({ ...goal, stage })).toContain('found, and not expected: goal missed');
    }
  });
});

describe('a trial that went otherwise', () => {
  let stage = '17';
  const [pair] = pairsOf(['17'], ['sale']);

  /** Plays the sale of ours, first with these findings, then with none. */
  async function played(...first: Trial['findings']): Promise<[plays: number, Trial['findings']]> {
    let plays = 0;
    const play = async (): Promise<Trial> => {
      const findings = ++plays === 1 ? first : [];
      return { stage, accident: 'sale', findings, summary: '' } as unknown as Trial;
    };
    const [trial] = await runTrials([pair!], play, 1, () => {});
    return [plays, trial!.findings];
  }

  afterEach(() => {
    stage = '17';
  });

  it.each(['stock wrong', 'two holders', 'nobody was told', 'told late'] as const)(
    'is not repeated if it has found: %s',
    async (finding) => {
      expect(await played(finding)).toEqual([1, [finding]]);
      expect(await played('call failed', finding)).toEqual([1, ['call failed', finding]]);
    },
  );

  it('is repeated once if a lock without renewal was lost, as on a busy machine any of them is', async () => {
    stage = '13';
    expect(await played('two holders')).toEqual([2, []]);
    stage = '14';
    expect(await played('two holders')).toEqual([1, ['two holders']]);
  });

  it('is repeated once if the machine may have been too slow', async () => {
    expect(await played('locked for ever')).toEqual([2, []]);
  });
});
