import type { RedisServer } from 'dev-servers';
import { Redis } from 'ioredis';
import { once } from 'node:events';

/** What a server says about itself. */
export interface Look {
  readonly isMaster: boolean;
  /** Of a replica: whether it gets what its master writes. */
  readonly isLinked: boolean;
  /** The keys of which it is the master, or would be in its master's place. */
  readonly keys: readonly string[];
  /** Of two masters that claim a key, the one with the higher number has it. */
  readonly epoch: number;
  /** Whether it carries out commands. A node of a cluster refuses them while it believes the cluster is not whole. */
  readonly isServing: boolean;
}

/** A server that may be master now and replica later, or away. */
export interface Member {
  readonly server: RedisServer;
  /** What is asked of it while it is away fails at once. */
  readonly admin: Redis;
}

/** Resolves when it can be asked. */
export async function memberOf(server: RedisServer): Promise<Member> {
  const admin = new Redis(server.url, {
    retryStrategy: () => 50,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  });
  admin.on('error', () => {}); // servers are taken away on purpose
  await once(admin, 'ready');
  return { server, admin };
}

/** Whether it is a master, or a replica that is connected to one. Rejects if it does not answer. */
export async function roleOf({ admin }: Member): Promise<Pick<Look, 'isMaster' | 'isLinked'>> {
  const info = await admin.info('replication');
  return {
    isMaster: info.includes('role:master'),
    isLinked: info.includes('master_link_status:up'),
  };
}
