import { setTimeout as sleep } from 'node:timers/promises';
import type { PeerSide, Scenario } from '../scenario.js';
import { openRedlock, type RedlockName, type Signal } from '../stage/clients.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect, connectToHeld } from '../stage/redis.js';

const LEASE_MS = 1_000;
const HELD_MS = 1_500;
const WORK_MS = 600;

interface Waiting {
  readonly key: string;
  call(work: (signal: Signal) => Promise<boolean>): Promise<boolean>;
}

export const scenario: Scenario<Waiting> = {
  title: 'The wait was longer than the lease',
  workload: `A call waits ${HELD_MS} ms for a lock of ${LEASE_MS} ms; then its work takes ${WORK_MS} ms.`,
  async play({ key, call }, server) {
    const redis = await connect(server);
    let isThere = false;
    const isAborted = await call(async (signal) => {
      await sleep(WORK_MS);
      isThere = (await redis.exists(key)) === 1;
      return signal.aborted;
    }).catch(() => true);
    return {
      holds: !isAborted,
      figure: isAborted ? 'aborted' : 'not aborted',
      words: isAborted
        ? `The work was told that its lock is lost. Its key was ${isThere ? 'there' : 'gone'}.`
        : 'The work finished under its lock.',
    };
  },
  peers: [
    redlock(
      'redlock',
      'Fixed on its main branch, in no release. @sesamecare-oss/redlock has the fix.',
    ),
    redlock('@sesamecare-oss/redlock'),
  ],
  ours: {
    settings: `\`leaseMs: ${LEASE_MS}\`.`,
    async open(server) {
      const locks = await ourLocks(server, { leaseMs: LEASE_MS });
      const key = 'lock:{stock:42}';
      await connectToHeld(server, key, HELD_MS);
      return { key, call: (work) => locks.withLock('stock:42', ({ signal }) => work(signal)) };
    },
  },
};

function redlock(library: RedlockName, note?: string): PeerSide<Waiting> {
  return {
    library,
    settings: '`using` with the defaults.',
    note,
    async open(server) {
      const key = 'stock:42';
      const opened = await openRedlock(library, [await connectToHeld(server, key, HELD_MS)]);
      return { key, call: (work) => opened.using([key], LEASE_MS, work) };
    },
  };
}
