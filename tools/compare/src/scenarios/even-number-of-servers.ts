import type { PeerSide, Scenario } from '../scenario.js';
import { openRedlock, type RedlockName } from '../stage/clients.js';
import { ourLocks } from '../stage/our-locks.js';
import { connect, connectToHeld, RedisServer } from '../stage/redis.js';
import { inSeconds, settled } from '../stage/settled.js';

const LIMIT_MS = 10_000;

type Acquire = () => Promise<unknown>;

export const scenario: Scenario<Acquire> = {
  title: 'Two servers, and the key is taken on one of them',
  workload: 'One of two servers grants the lock and one refuses it: there is no majority.',
  async play(acquire) {
    const result = await settled(acquire(), LIMIT_MS);
    if (result.state === 'pending') {
      return {
        holds: false,
        figure: `no answer in ${LIMIT_MS / 1_000} s`,
        words: 'The call neither succeeded nor failed: no vote had a majority.',
      };
    }
    return {
      holds: true,
      figure: `${result.state} after ${inSeconds(result.afterMs)}`,
      words: result.state === 'rejected' ? `"${result.error.message}"` : 'It was taken.',
    };
  },
  peers: [
    redlock('redlock', ' Its README recommends an odd number of servers.'),
    redlock('@sesamecare-oss/redlock'),
  ],
  ours: {
    settings:
      'The defaults, `waitMs: 2_000`. There is no quorum: the key is taken on its only server.',
    async open(server) {
      await connectToHeld(server, 'lock:{stock:42}');
      const locks = await ourLocks(server, { waitMs: 2_000 });
      return () => locks.acquire('stock:42');
    },
  },
};

function redlock(library: RedlockName, advice = ''): PeerSide<Acquire> {
  return {
    library,
    settings: `\`acquire\` with the defaults (ten tries).${advice}`,
    async open(server) {
      const clients = [
        await connectToHeld(server, 'stock:42'),
        await connect(await RedisServer.start()),
      ];
      const opened = await openRedlock(library, clients);
      return () => opened.acquire(['stock:42'], 5_000);
    },
  };
}
