import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterTest } from './after-test.js';

/**
 * A proxy that passes on all that the server says. Both sides of a connection end together. Stopped after the test.
 *
 * @param pass passes on what the client says
 * @returns the URL
 */
export async function startPassingProxy(
  port: number,
  pass: (client: Socket, target: Socket) => void,
): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const target = connect(port, '127.0.0.1');
    for (const socket of [client, target]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => {});
      socket.on('close', () => {
        client.destroy();
        target.destroy();
      });
    }
    target.pipe(client);
    pass(client, target);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  afterTest(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `redis://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
