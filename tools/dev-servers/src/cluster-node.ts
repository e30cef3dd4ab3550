import { askRedis } from './ask-redis.js';

/** The slots from `first` to `last`, both included. */
export interface SlotRange {
  readonly first: number;
  readonly last: number;
}

/** One line of CLUSTER NODES. */
export interface ClusterNode {
  readonly id: string;
  readonly isMyself: boolean;
  readonly isMaster: boolean;
  /** The node that this one follows, if it is a replica. */
  readonly masterId: string | undefined;
  /** Of two nodes that both claim a slot, the one with the higher number is right. */
  readonly epoch: number;
  /** Whether the node that was asked talks to this one and finds nothing wrong with it. */
  readonly isWell: boolean;
  readonly slots: readonly SlotRange[];
}

/** All nodes as the one on `port` sees them; none if it does not answer. */
export async function clusterNodes(port: number): Promise<ClusterNode[]> {
  const answer = await askRedis(port, 'CLUSTER NODES');
  return answer
    .split('\n')
    .filter((line) => /^[0-9a-f]{40} /.test(line))
    .map(parse);
}

/** Fields: id, address, flags, master, ping, pong, epoch, link, and then the slots. */
function parse(line: string): ClusterNode {
  const [id, , flagList, master, , , epoch, link, ...slots] = line.trim().split(' ') as [
    ...[string, string, string, string, string, string, string, string],
    ...string[],
  ];
  const flags = flagList.split(',');
  const isBad = flags.some((flag) => /^(fail\??|handshake|noaddr)$/.test(flag));
  return {
    id,
    isMyself: flags.includes('myself'),
    isMaster: flags.includes('master'),
    masterId: master === '-' ? undefined : master,
    epoch: Number(epoch),
    isWell: !isBad && link === 'connected',
    slots: slots.flatMap(parseRange),
  };
}

/** `5`, or `0-5460`. A slot that is moving is listed once more, in brackets. */
function parseRange(text: string): SlotRange[] {
  const found = /^(\d+)(?:-(\d+))?$/.exec(text);
  if (found === null) return [];
  const first = Number(found[1]);
  return [{ first, last: Number(found[2] ?? first) }];
}
