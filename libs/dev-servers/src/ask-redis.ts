import { connect } from 'node:net';

/**
 * The first answer of a Redis server or sentinel on 127.0.0.1 to one inline command; '' if there is none within a
 * second.
 */
export function askRedis(port: number, command: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    let answer = '';
    socket.setTimeout(1_000, () => socket.destroy());
    socket.on('connect', () => socket.end(`${command}\r\n`));
    socket.on('data', (data) => (answer += data.toString()));
    socket.on('error', () => socket.destroy());
    socket.on('close', () => resolve(answer));
  });
}
