import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from './after-test.js';

/**
 * A proxy to a Redis that lacks WAITAOF. It answers WAITAOF for one replica that needs `writeMs` for each write to
 * disk. As in Redis, later commands wait for the reply to WAITAOF. Stopped after the test.
 * @returns the URL
 */
export async function startWaitAofProxy(port: number, writeMs: number): Promise<string> {
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
    void passOn(client, target, writeMs).catch(() => {}); // the connection was cut
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  afterTest(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `redis://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function passOn(client: Socket, target: Socket, writeMs: number): Promise<void> {
  let unread = '';
  for await (const data of client) {
    unread += (data as Buffer).toString('latin1');
    const found = /\*4\r\n\$7\r\nWAITAOF\r\n(?:\$\d+\r\n\d+\r\n){3}/i.exec(unread);
    if (found === null) {
      target.write(unread, 'latin1');
      unread = '';
      continue;
    }
    target.write(unread.slice(0, found.index), 'latin1');
    await sleep(writeMs);
    client.write('*2\r\n:0\r\n:1\r\n');
    target.write(unread.slice(found.index + found[0].length), 'latin1');
    unread = '';
  }
}
