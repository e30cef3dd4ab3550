import { afterAll, describe, expect, it } from '@jest/globals';
import type { RedisServer } from 'dev-servers';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../../test/support/eventually.js';
import { openAdmin } from '../../../test/support/open-locks.js';
import type { EntryKinds, Fault } from '../src/history/entry.js';
import { HistoryFile } from '../src/history/history-file.js';
import { SentinelStage } from '../src/stages/sentinel.js';

describe('torture with sentinels', () => {
  const folder = mkdtempSync(join(tmpdir(), 'torture-test-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  /** @returns the faults of this name that are written down while this happens */
  async function faultsDuring(name: string, act: (stage: SentinelStage) => Promise<void>) {
    const history = new HistoryFile<EntryKinds>(join(folder, `${name}.jsonl`));
    const stage = await SentinelStage.start(history);
    try {
      await act(stage);
    } finally {
      await stage.stop();
    }
    const entries = history.read();
    history.close();
    return entries.filter((entry): entry is Fault => entry.kind === 'fault' && entry.name === name);
  }

  it('writes down that a server became the master again that had been restarted and had nothing', async () => {
    const promoted = await faultsDuring('replica promoted', async (stage) => {
      const { set } = stage;
      const first = await set.master();
      await first.kill();
      const second = await set.successorOf(first);
      expect(stage.masters.map(({ server }) => server)).toEqual([second]);
      await first.restart(); // says that it is the master until it is told whom to follow
      const third = await eventually(() => set.failOver());
      expect(third).toBe(first);
      await eventually(() => expect(stage.masters.map(({ server }) => server)).toEqual([first]));
    });
    expect(promoted).toHaveLength(2);
    expect(promoted[1]?.forgets).toHaveProperty('unknownTo.leases.w6', null);
  });

  it('writes down for how long the sentinels name a server that is a replica', async () => {
    const misnamed = await faultsDuring('sentinels name a replica', async ({ set }) => {
      await sleep(500); // all is well
      const master = await set.master();
      const [other] = set.servers.filter((server) => server !== master) as [RedisServer];
      const admin = openAdmin(master.url);
      await admin.replicaof('127.0.0.1', String(other.port));
      await sleep(1_500);
      await admin.replicaof('NO', 'ONE');
      await sleep(500);
    });
    expect(misnamed).toHaveLength(1);
    const [{ at, until, disturbs }] = misnamed as [Fault];
    expect(disturbs).toBe('all');
    expect(until - at).toBeGreaterThan(1_000);
  });
});
