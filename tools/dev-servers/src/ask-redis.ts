import { connect, type Socket } from 'node:net';

/** One line as one would type it, or the words of a command, which may then contain any character. */
export type RedisCommand = string | readonly string[];

const ANSWER_LIMIT_MS = 1_000;
const ORDER_LIMIT_MS = 10_000;

/**
 * The first answer of a Redis server or sentinel on 127.0.0.1 to one command, as it came over the wire; '' if there is
 * none within `limitMs`.
 */
export function askRedis(
  port: number,
  command: RedisCommand,
  limitMs = ANSWER_LIMIT_MS,
): Promise<string> {
  // The server closes the connection after the whole answer.
  return answerTo(port, limitMs, (socket) => socket.end(onTheWire(command)));
}

/**
 * Gives a command that a Redis server on 127.0.0.1 has to carry out.
 *
 * @throws Error unless it answers OK within ten seconds.
 */
export async function orderRedis(port: number, command: RedisCommand): Promise<void> {
  // Valkey forgets who has asked if the connection is half closed while it waits for its replicas.
  const answer = await answerTo(port, ORDER_LIMIT_MS, (socket) => {
    socket.once('data', () => socket.end());
    socket.write(onTheWire(command));
  });
  if (answer.startsWith('+OK')) return;
  const words = typeof command === 'string' ? command : command.slice(0, 4).join(' ');
  throw new Error(`Redis on port ${port} refused "${words}": ${answer.trim() || 'no answer'}`);
}

function onTheWire(command: RedisCommand): string {
  if (typeof command === 'string') return `${command}\r\n`;
  const words = command.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
  return `*${command.length}\r\n${words.join('')}`;
}

function answerTo(port: number, limitMs: number, ask: (socket: Socket) => void): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1').setEncoding('utf8');
    let answer = '';
    socket.setTimeout(limitMs, () => socket.destroy());
    socket.on('connect', () => ask(socket));
    socket.on('data', (data: string) => (answer += data));
    socket.on('error', () => socket.destroy());
    socket.on('close', () => resolve(answer));
  });
}
