import type { Socket } from 'node:net';
import { firstCommand } from './first-command.js';
import { startPassingProxy } from './passing-proxy.js';

/**
 * A proxy that presents several servers as one, and refuses a command whose keys they would have to share: those with
 * different hash tags. Stopped after the test.
 */
export class SlotRefusingProxy {
  /** How many commands were refused. */
  refused = 0;
  /** While it is, it refuses nothing. */
  isLenient = false;
  url = '';

  static async start(port: number): Promise<SlotRefusingProxy> {
    const proxy = new SlotRefusingProxy();
    proxy.url = await startPassingProxy(port, (client, target) => proxy.#pass(client, target));
    return proxy;
  }

  #pass(client: Socket, target: Socket): void {
    let unread = Buffer.alloc(0);
    client.on('data', (data) => {
      unread = Buffer.concat([unread, data]);
      for (;;) {
        const command = firstCommand(unread);
        if (command === undefined) return;
        // A command that the server refuses as well keeps its place among the answers.
        const isShared = !this.isLenient && tagsOf(command.args).size > 1;
        if (isShared) this.refused++;
        target.write(isShared ? REFUSED : unread.subarray(0, command.length));
        unread = unread.subarray(command.length);
      }
    });
  }
}

const REASON = "CROSSSLOT Keys in request don't hash to the same slot";
const SCRIPT = `return redis.error_reply("${REASON}")`;
const REFUSED = `*3\r\n$4\r\nEVAL\r\n$${SCRIPT.length}\r\n${SCRIPT}\r\n$1\r\n0\r\n`;

/** The hash tags of a script's keys. */
function tagsOf([name = '', , count = '0', ...rest]: readonly string[]): Set<string | undefined> {
  if (!/^eval/i.test(name)) return new Set();
  return new Set(rest.slice(0, Number(count)).map((key) => /\{(.*?)\}/.exec(key)?.[1]));
}
