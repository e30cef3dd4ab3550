import { faketime } from 'dev-servers';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { FORCED } from '../history/entry.js';
import { CROWD_KEYS, HOT_KEYS, LONE_KEYS, WARM_KEYS } from '../keys.js';
import { MOST_AWAY, type QuorumNode, type QuorumStage } from '../stages/quorum.js';
import { LONG_LEASE_MS } from '../worker/repertoire.js';
import { type Fault, type Faults, noted, type Scene, standStill } from './fault.js';
import { CROWD_MS, KEY_FAULTS, sendCrowd } from './key-faults.js';

type QuorumScene = Scene<QuorumStage>;

const NOTHING = { disturbs: 'nothing' } as const;

/** A step back makes the leases of a node appear to last this much longer. */
const BACK_MS = 3_000;
/** Much shorter than the lease, and longer than somebody needs who waits for the key and must not get it. */
const STANDSTILL_MS = 2_000;
/** Time for an order to be read, and for a key to be granted on a busy machine. */
const ORDER_MS = 800;

/** Each call is one to every node, so a crowd that asks for all of them would keep its process busy for seconds. */
const CROWD = CROWD_KEYS.slice(0, 300);

/** Ways in which a node can be away for a while, and be there again with all that it knew. */
const WAYS: readonly ((scene: QuorumScene, node: QuorumNode, ms: number) => Promise<unknown>)[] = [
  freeze,
  partition,
];

async function freeze(_: QuorumScene, { server }: QuorumNode, ms: number): Promise<void> {
  const goOn = standStill(server);
  await sleep(ms);
  goOn();
}

/** As on a broken network: nothing passes, and nobody is told. Who reaches it without the proxy still does. */
async function partition(
  { random }: QuorumScene,
  { proxy }: QuorumNode,
  ms: number,
): Promise<void> {
  proxy.swallow();
  if (random.chance(0.5)) return sleep(ms);
  await sleep(ms / 2);
  await proxy.close();
  await sleep(ms / 2);
  await proxy.open();
}

async function restart({ random }: QuorumScene, { server }: QuorumNode): Promise<void> {
  await server.kill();
  await sleep(random.between(0, 300));
  await server.restart();
}

function awayInSomeWay(scene: QuorumScene, nodes: readonly QuorumNode[], ms: number) {
  return scene.stage.without(nodes, () =>
    Promise.all(nodes.map((node) => scene.random.pick(WAYS)(scene, node, ms))),
  );
}

/** Something happens to one node, which nobody may notice as long as a majority of the others is there. */
function toOne(
  act: (scene: QuorumScene, node: QuorumNode) => Promise<unknown>,
): Fault<QuorumScene> {
  return toSome(1, (scene, [node]) => act(scene, node as QuorumNode));
}

/** The same, to as many as that. */
function toSome(
  count: number,
  act: (scene: QuorumScene, nodes: readonly QuorumNode[]) => Promise<unknown>,
): Fault<QuorumScene> {
  return async (scene) => {
    const nodes = someOf(scene, count);
    if (nodes.length === count) await noted(scene, NOTHING, () => act(scene, nodes));
  };
}

/** Different nodes that are there now. */
function someOf({ stage, random }: QuorumScene, count: number): readonly QuorumNode[] {
  const left = [...stage.present];
  const nodes: QuorumNode[] = [];
  while (nodes.length < count && left.length > 0) {
    nodes.push(...left.splice(random.between(0, left.length - 1), 1));
  }
  return nodes;
}

function cutCommands({ admin }: QuorumNode): Promise<unknown> {
  return admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
}

function cutInboxes({ admin }: QuorumNode): Promise<unknown> {
  return admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
}

/** What can happen to the nodes of a quorum, and to the ways to them. */
export const QUORUM_FAULTS: Faults<QuorumStage> = {
  'node restarted empty': toOne((scene, node) =>
    scene.stage.without([node], () => restart(scene, node), { restarts: true }),
  ),
  'node frozen': toOne((scene, node) =>
    scene.stage.without([node], () => freeze(scene, node, scene.random.between(50, 3_000))),
  ),
  'node partitioned': toOne((scene, node) =>
    scene.stage.without([node], () => partition(scene, node, scene.random.between(500, 3_000))),
  ),
  /** Its votes arrive after the rounds are over. */
  'node far away': toOne((scene, node) =>
    scene.stage.without([node], async () => {
      const longest = scene.random.pick([30, 100, 250, 700]);
      node.proxy.slowDown(() => scene.random.between(0, longest));
      await sleep(scene.random.between(800, 2_500));
      node.proxy.slowDown(() => 0);
    }),
  ),
  'node out of memory': toOne((scene, node) =>
    scene.stage.without([node], async () => {
      await node.admin.config('SET', 'maxmemory', '100kb');
      await sleep(scene.random.between(50, 1_200));
      await node.admin.config('SET', 'maxmemory', '0');
    }),
  ),
  'scripts of a node flushed': toOne((_, { admin }) => admin.script('FLUSH')),
  'connections to a node cut': toOne((scene, node) =>
    scene.stage.without([node], () => Promise.all([cutCommands(node), cutInboxes(node)])),
  ),
  /** Nobody holds a key without a majority, so nothing is forgotten. */
  'all connections cut': (scene) =>
    noted(scene, NOTHING, () =>
      scene.stage.without(scene.stage.nodes, () =>
        Promise.all(scene.stage.present.flatMap((node) => [cutCommands(node), cutInboxes(node)])),
      ),
    ),
  /** Those who wait ask again by themselves. Only what an operator does is told by a message alone. */
  'all inboxes cut': (scene) =>
    noted(scene, { ...NOTHING, silences: 'all' }, () =>
      Promise.all(scene.stage.present.map(cutInboxes)),
    ),
  'two nodes at once': toSome(MOST_AWAY, (scene, nodes) =>
    awayInSomeWay(scene, nodes, scene.random.between(300, 3_000)),
  ),
  /** Nobody may hold a key beyond his deadline, and all goes on afterwards. */
  'majority away': toSome(MOST_AWAY + 1, (scene, nodes) =>
    awayInSomeWay(scene, nodes, scene.random.between(300, 3_500)),
  ),
  /**
   * A majority forgets a lease that lasts for long. Only the time for which each of them gives no vote keeps the key
   * from somebody else; until it is over, nobody gets any key.
   */
  'majority restarted empty': toSome(MOST_AWAY + 1, async (scene, nodes) => {
    const { stage, random, crew } = scene;
    const held = { do: 'hold', key: random.pick(LONE_KEYS), leaseMs: LONG_LEASE_MS } as const;
    // Of a run in which the first workers are broken, the last one is not.
    const [holder, ...rivals] = crew.workers.sort((a, b) => b.name.localeCompare(a.name));
    holder?.tell({ ...held, ms: LONG_LEASE_MS });
    await sleep(ORDER_MS);
    for (const rival of rivals) rival.tell({ ...held, ms: ORDER_MS });
    const restarted = (): Promise<unknown> =>
      Promise.all(nodes.map((node) => restart(scene, node)));
    // Its holder cannot learn of it, and may believe in the lease until its deadline.
    const wakeUp = holder && standStill(holder);
    await stage.without(nodes, restarted, { restarts: true });
    await sleep(STANDSTILL_MS);
    wakeUp?.();
  }),
  /** Votes of that node end early: with two others that had not voted, it may vote for somebody else. */
  'clock of a node stepped forward': step((scene) => scene.random.between(1, 60), {
    forgets: 'all',
    notice: 'renewal',
  }),
  'clock of a node stepped back': step((scene) => -scene.random.between(1, BACK_MS / 1_000), {}),
};

function step(seconds: (scene: QuorumScene) => number, effects: object): Fault<QuorumScene> {
  return async (scene) => {
    const [node] = someOf(scene, 1);
    if (node === undefined || faketime === undefined) return;
    const moreMs = LONG_LEASE_MS + BACK_MS;
    await noted(scene, { ...NOTHING, ...effects }, () =>
      scene.stage.without([node], () => node.server.stepClock(seconds(scene)), { moreMs }),
    );
  };
}

/** What can happen to one key, on every node that is there. */
export const QUORUM_KEY_FAULTS: Faults<QuorumStage> = {
  [FORCED]: KEY_FAULTS[FORCED] as Faults<QuorumStage>[string],
  'votes deleted': onKey((scene, key, lock, nodes) =>
    noted(scene, { disturbs: { key }, forgets: { key }, notice: 'renewal' }, () =>
      Promise.all(nodes.map(({ admin }) => admin.del(lock))),
    ),
  ),
  /** The others still have it, but with two that had not voted, this one may vote for somebody else. */
  'vote of a node deleted': onKey((scene, key, lock, [node]) =>
    noted(scene, { ...NOTHING, forgets: { key }, notice: 'renewal' }, () => node?.admin.del(lock)),
  ),
  /** A crowd of processes that stood in line and died. It must not keep the living waiting. */
  'dead waiters in line': onKey((scene, _, lock, nodes) =>
    noted(scene, NOTHING, async () => {
      const now = Date.now() * 1_000;
      const dead = Array.from({ length: 150 }, (__, n) => [
        now - 1_000 + n,
        `${randomBytes(16).toString('hex')}:1`,
      ]).flat();
      await Promise.all(
        nodes.map(async ({ admin }) => {
          await admin.zadd(`${lock}:queue`, ...dead);
          await admin.pexpire(`${lock}:queue`, 60_000);
        }),
      );
    }),
  ),
  'crowd gives up': (scene) =>
    noted(scene, NOTHING, async () => {
      sendCrowd(scene, CROWD);
      await sleep(CROWD_MS);
    }),
  /** Its votes for calls that have given up come when it goes on. */
  'crowd gives up beside a frozen node': toOne((scene, node) =>
    scene.stage.without([node], async () => {
      const goOn = standStill(node.server);
      sendCrowd(scene, CROWD);
      await sleep(scene.random.between(CROWD_MS, 2 * CROWD_MS));
      goOn();
    }),
  ),
};

function onKey(
  act: (
    scene: QuorumScene,
    key: string,
    lock: string,
    nodes: readonly QuorumNode[],
  ) => Promise<unknown>,
): Fault<QuorumScene> {
  return (scene) => {
    const key = scene.random.pick(scene.random.chance(0.6) ? HOT_KEYS : WARM_KEYS);
    const { present } = scene.stage;
    const nodes = [...present].sort(() => scene.random.next() - 0.5);
    return act(scene, key, `lock:{${key}}`, nodes);
  };
}
