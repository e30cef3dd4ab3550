import { type AddressInfo, createServer } from 'node:net';

/**
 * A TCP port of 127.0.0.1 that was free a moment ago. Another process may take it before the caller does, so be ready
 * to ask again.
 */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as AddressInfo;
      probe.close(() => resolve(port));
    });
  });
}
