import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { afterTest } from './after-test.js';

/** One command in the output of MONITOR. */
export interface MonitoredCommand {
  /** The address of the client; 'lua' for commands of scripts. */
  readonly source: string;
  /** In lower case. */
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
    // CR and LF may arrive in different chunks.
    const lines = createInterface({ input: socket, crlfDelay: Infinity });
    socket.write('MONITOR\r\n');
    await once(lines, 'line');
    lines.on('line', (line: string) => {
      if (!socket.readableEnded) monitor.#read(line); // a killed server leaves an incomplete last line
    });
    afterTest(() => monitor.#stop());
    return monitor;
  }

  /** The commands executed since the start or the last call, including all that were executed before this call. */
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
