import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { afterTest } from './after-test.js';

/** One line of MONITOR. */
export interface MonitoredCommand {
  /** Address of the client; 'lua' for what a script ran. */
  readonly source: string;
  /** The command's name, in lower case. */
  readonly name: string;
  readonly args: readonly string[];
}

/** Records every command that a server executes. */
export class RedisMonitor {
  readonly #socket: Socket;
  readonly #port: number;
  #commands: MonitoredCommand[] = [];
  #marker: { readonly text: string; readonly seen: () => void } | undefined;

  private constructor(socket: Socket, port: number) {
    this.#socket = socket;
    this.#port = port;
  }

  /** Stopped after the test. */
  static async start(port: number): Promise<RedisMonitor> {
    const socket = connect(port, '127.0.0.1');
    const monitor = new RedisMonitor(socket, port);
    // The two bytes at the end of a line may arrive far apart.
    const lines = createInterface({ input: socket, crlfDelay: Infinity });
    socket.write('MONITOR\r\n');
    await once(lines, 'line');
    lines.on('line', (line: string) => {
      if (!socket.readableEnded) monitor.#read(line); // a server that was killed leaves its last line unfinished
    });
    afterTest(() => monitor.#stop());
    return monitor;
  }

  /** What was executed since the start, or since the last call. Nothing executed before the call is missing. */
  async commands(): Promise<MonitoredCommand[]> {
    const text = randomBytes(8).toString('hex');
    const seen = new Promise<void>((resolve) => (this.#marker = { text, seen: resolve }));
    const socket = connect(this.#port, '127.0.0.1');
    socket.end(`ECHO ${text}\r\n`);
    await seen;
    const commands = this.#commands;
    this.#commands = [];
    return commands;
  }

  #stop(): void {
    this.#socket.destroy();
  }

  #read(line: string): void {
    const [, source, rest] = /^\+[\d.]+ \[\d+ ([^\]]+)\] (.*)$/.exec(line) ?? [];
    if (source === undefined || rest === undefined) throw new Error(`unexpected line ${line}`);
    const [name = '', ...args] = [...rest.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(
      ([, text = '']) => text,
    );
    if (this.#marker !== undefined && args[0] === this.#marker.text) this.#marker.seen();
    else this.#commands.push({ source, name: name.toLowerCase(), args });
  }
}
