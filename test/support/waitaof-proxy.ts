import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { startPassingProxy } from './passing-proxy.js';

/**
 * A proxy to a Redis that lacks WAITAOF. It answers WAITAOF for one replica that needs `writeMs` for each write to
 * disk. As in Redis, later commands wait for the reply to WAITAOF. Stopped after the test.
 * @returns the URL
 */
export function startWaitAofProxy(port: number, writeMs: number): Promise<string> {
  return startPassingProxy(port, (client, target) => {
    void passOn(client, target, writeMs).catch(() => {}); // the connection was cut
  });
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
