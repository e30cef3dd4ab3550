/** What the lab makes of what it has seen. */
import { describe, expect, it } from '@jest/globals';
import { findingsOf } from '../src/run/findings.js';
import type { Trial } from '../src/run/trial.js';
import { pairsOf, runTrials } from '../src/run/trials.js';
import type { EventKind, LabEvent } from '../src/work/events.js';

describe('the judge', () => {
  const right = { start: 100, left: 80, sold: 20 };
  const event = (at: number, lane: string, kind: EventKind, text?: string): LabEvent =>
    text === undefined ? { at, lane, kind } : { at, lane, kind, text };

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

  it('ends the hold of a paused process when its lock would have said no', () => {
    const paused = [
      event(1, 'A', 'hold'),
      event(2, 'A', 'valid until', '5'),
      event(3, 'A', 'paused'),
    ];
    const later = (at: number): LabEvent[] => [event(at, 'B', 'hold'), event(9, 'A', 'failed')];
    expect(findingsOf([...paused, ...later(6)], right, [])).not.toContain('two holders');
    expect(findingsOf([...paused, ...later(4)], right, [])).toContain('two holders');
  });

  it('finds a stock that does not account for what was sold', () => {
    expect(findingsOf([], { ...right, left: 90 }, [])).toEqual(['stock wrong']);
  });
});

describe('a trial that went otherwise', () => {
  const [pair] = pairsOf([17], ['sale']);

  /** Plays the sale of ours, first with these findings, then with none. */
  async function played(...first: Trial['findings']): Promise<[plays: number, Trial['findings']]> {
    let plays = 0;
    const play = async (): Promise<Trial> => {
      const findings = ++plays === 1 ? first : [];
      return { stage: 17, accident: 'sale', findings, summary: '' } as unknown as Trial;
    };
    const [trial] = await runTrials([pair!], play, 1, () => {});
    return [plays, trial!.findings];
  }

  it.each(['stock wrong', 'two holders', 'nobody was told'] as const)(
    'is not repeated if it has found: %s',
    async (finding) => {
      expect(await played(finding)).toEqual([1, [finding]]);
      expect(await played('call failed', finding)).toEqual([1, ['call failed', finding]]);
    },
  );

  it('is repeated once if the machine may have been too slow', async () => {
    expect(await played('locked for ever')).toEqual([2, []]);
  });
});
