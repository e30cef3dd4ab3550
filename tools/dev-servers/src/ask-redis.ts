import { connect } from 'node:net';

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
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1').setEncoding('utf8');
    let answer = '';
    socket.setTimeout(limitMs, () => socket.destroy());
    socket.on('connect', () => socket.end(onTheWire(command)));
    socket.on('data', (data: string) => (answer += data));
    socket.on('error', () => socket.destroy());
    socket.on('close', () => resolve(answer));
  });
}

/**
 * Gives a command that a Redis server on 127.0.0.1 has to carry out.
 *
 * @throws Error unless it answers OK within ten seconds.
 */
export async function orderRedis(port: number, command: RedisCommand): Promise<void> {
  const answer = await askRedis(port, command, ORDER_LIMIT_MS);
  if (answer.startsWith('+OK')) return;
  const words = typeof command === 'string' ? command : command.slice(0, 4).join(' ');
  throw new Error(`Redis on port ${port} refused "${words}": ${answer.trim() || 'no answer'}`);
}

function onTheWire(command: RedisCommand): string {
  if (typeof command === 'string') return `${command}\r\n`;
  const words = command.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
  return `*${command.length}\r\n${words.join('')}`;
}
