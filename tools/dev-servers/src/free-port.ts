import { type AddressInfo, createServer } from 'node:net';

/** How far above a node's port the port is on which the nodes talk to each other, unless told otherwise. */
const BUS_DISTANCE = 10_000;
const LOWEST = 12_000;
const COUNT = 10_000;
const ATTEMPTS = 100;

/**
 * A TCP port of 127.0.0.1 that was free a moment ago. Another process may take it before the caller does, so be ready
 * to ask again.
 *
 * @throws Error if the port that is asked for is taken
 */
export function freePort(wanted = 0): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(wanted, '127.0.0.1', () => {
      const { port } = probe.address() as AddressInfo;
      probe.close(() => resolve(port));
    });
  });
}

/**
 * A port that was free a moment ago, as was the one that the nodes of a cluster use among themselves.
 *
 * Both are below the ports that Linux gives to outgoing connections: a node that was killed must find its own free when
 * it is started again, because the others know it by them.
 */
export async function freeClusterPort(): Promise<number> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    const port = LOWEST + Math.floor(Math.random() * COUNT);
    const probes = await Promise.allSettled([freePort(port), freePort(port + BUS_DISTANCE)]);
    if (probes.every(({ status }) => status === 'fulfilled')) return port;
  }
  throw new Error(`No two free ports were found for a node of a Redis Cluster`);
}
