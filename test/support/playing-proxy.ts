import { firstCommand } from './first-command.js';
import { startPassingProxy } from './passing-proxy.js';

/** What is sent to the server instead of a command; undefined: the command as it is. */
export type Instead = (args: readonly string[]) => readonly string[] | undefined;

/**
 * A proxy that makes a server answer like another one. What it changes is answered by the server too, so that it keeps
 * its place among the answers. Stopped after the test.
 * @returns the URL
 */
export function startPlayingProxy(port: number, instead: Instead): Promise<string> {
  return startPassingProxy(port, (client, target) => {
    let unread = Buffer.alloc(0);
    client.on('data', (data) => {
      unread = Buffer.concat([unread, data]);
      for (;;) {
        const command = firstCommand(unread);
        if (command === undefined) return;
        const other = instead(command.args);
        target.write(other === undefined ? unread.subarray(0, command.length) : written(other));
        unread = unread.subarray(command.length);
      }
    });
  });
}

function written(args: readonly string[]): string {
  const parts = args.map((arg) => `$${Buffer.byteLength(arg)}\r\n${arg}\r\n`);
  return `*${args.length}\r\n${parts.join('')}`;
}
