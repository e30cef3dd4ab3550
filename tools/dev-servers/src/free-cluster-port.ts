import { createServer } from 'node:net';

/** How far above a node's port the port is on which the nodes talk to each other, unless told otherwise. */
const BUS_DISTANCE = 10_000;
const LOWEST = 12_000;
const COUNT = 10_000;
const ATTEMPTS = 100;

/**
 * A port of 127.0.0.1 that was free a moment ago, as was the one that the nodes of a cluster use among themselves.
 *
 * Both are below the ports that Linux gives to outgoing connections: a node that was killed must find its own free when
 * it is started again, because the others know it by them.
 */
export async function freeClusterPort(): Promise<number> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    const port = LOWEST + Math.floor(Math.random() * COUNT);
    if ((await isFree(port)) && (await isFree(port + BUS_DISTANCE))) return port;
  }
  throw new Error(`No two free ports were found for a node of a Redis Cluster`);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
  });
}
