import { afterAll, describe, expect, it } from '@jest/globals';
import { tooManyAway } from 'check-history';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { check } from '../src/checker/check.js';
import type { EntryKinds } from '../src/history/entry.js';
import { HistoryFile } from '../src/history/history-file.js';
import type { Absence } from '../src/stages/absences.js';
import { type QuorumNode, QuorumStage } from '../src/stages/quorum.js';
import { read } from './histories.js';

/** `1 10-40` is node 1, away from 10 to 40. */
function absences(...texts: readonly string[]): Absence[] {
  return texts.map((text) => {
    const [node = 0, from = 0, until = 0] = text.split(/[ -]/).map(Number);
    return { node, from, until, isOfMachine: false };
  });
}

describe('torture of a quorum', () => {
  it.each([
    { away: ['1 10-40', '2 20-50'], found: [] },
    { away: ['1 10-40', '2 20-50', '3 30-60'], found: ['30-40'] },
    { away: ['1 10-40', '2 20-50', '3 30-60', '1 35-45'], found: ['30-45'] },
    // The same node twice is one node.
    { away: ['1 10-40', '1 20-50', '2 30-60'], found: [] },
    {
      away: ['1 10-20', '2 10-20', '3 10-20', '1 30-90', '2 30-90', '3 80-90'],
      found: ['10-20', '80-90'],
    },
  ])('of five nodes, too many are away: $away', ({ away, found }) => {
    const intervals = tooManyAway(absences(...away), 2, { from: 0, until: 100 });
    expect(intervals.map(({ from, until }) => `${from}-${until}`)).toEqual(found);
  });

  it('looks at no other times than it is asked for', () => {
    const away = absences('1 10-40', '2 10-40', '3 10-40');
    expect(tooManyAway(away, 2, { from: 20, until: 30 })).toEqual([{ from: 20, until: 30 }]);
    expect(tooManyAway(away, 2, { from: 40, until: 90 })).toEqual([]);
  });

  describe('its stage', () => {
    const folder = mkdtempSync(join(tmpdir(), 'torture-test-'));
    afterAll(() => rmSync(folder, { recursive: true }));

    it('excuses nothing while a majority is there, and all while it is not', async () => {
      const history = new HistoryFile<EntryKinds>(join(folder, 'history.jsonl'));
      const stage = await QuorumStage.start(history);
      const [first, second, third] = stage.nodes as [QuorumNode, QuorumNode, QuorumNode];
      try {
        await stage.without([first, second], () => sleep(20));
        stage.wasSlow(first.server, 0, 100);
        expect(history.read()).toEqual([]);
        expect(stage.present).toHaveLength(3);

        await stage.without([third], () => third.server.restart(), { restarts: true });
        expect(history.read()).toMatchObject([{ name: 'too few nodes', disturbs: 'all' }]);
        await sleep(1_500);
        expect(stage.present).toHaveLength(4); // the one that has restarted gives no vote yet
      } finally {
        await stage.stop();
        history.close();
      }
    });
  });

  it('judges no order, and no hand-over, where none is promised', () => {
    const wrong = 'a/1 10-3000; c/1 3010-3090 askedAt=2500; b/1 3100-3200 askedAt=100';
    const limits = {
      ...{ gapMs: 500, fairMs: 3_000, excusedShare: 1 },
      ...{ excusedTimeShare: Infinity, plannedTimeShare: Infinity },
    };
    expect(check(read(wrong), limits).violations).toHaveLength(1);
    expect(check(read(wrong), { ...limits, isUnordered: true }).violations).toEqual([]);
    const two = 'a/1 10-400; b/1 300-500';
    expect(check(read(two), { ...limits, isUnordered: true }).violations).toHaveLength(1);
  });
});
