import { describe, expect, it } from '@jest/globals';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Fault } from '../apps/torture/src/history/entry.js';
import { HistoryFile } from '../apps/torture/src/history/history-file.js';
import { SentinelStage } from '../apps/torture/src/servers/sentinel-stage.js';
import { eventually } from './support/eventually.js';

describe('torture with sentinels', () => {
  it('writes down that a server became the master again that had been restarted and had nothing', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'torture-test-'));
    const history = new HistoryFile(join(folder, 'history.jsonl'));
    const stage = await SentinelStage.start(history);
    try {
      const { set } = stage;
      const first = await set.master();
      await first.kill();
      const second = await set.successorOf(first);
      expect(stage.masters.map(({ server }) => server)).toEqual([second]);
      await first.restart(); // says that it is the master until it is told whom to follow
      const third = await eventually(() => set.failOver());
      expect(third).toBe(first);
      await eventually(() => expect(stage.masters.map(({ server }) => server)).toEqual([first]));
    } finally {
      await stage.stop();
    }
    const promoted = history
      .read()
      .filter(
        (entry): entry is Fault => entry.kind === 'fault' && entry.name === 'replica promoted',
      );
    expect(promoted).toHaveLength(2);
    expect(promoted[1]?.forgets).toHaveProperty('unknownTo.leases.w6', null);
    history.close();
    rmSync(folder, { recursive: true });
  });
});
