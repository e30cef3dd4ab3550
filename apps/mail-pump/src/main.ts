import { provideRedis } from 'dev-servers';
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { writeMail } from './outbox.js';
import { Replicas } from './replicas.js';

const MAIL_EVERY_MS = 500;
const ENDS_EVERY_MS = 4_000;

/** `npm run start:mail-pump`: a Redis, three replicas and mail, while the one that leads is killed or closed. */
const server = await provideRedis();
const redis = new Redis(server.url);
const replicas = new Replicas(server.url, (name, line) => console.log(`${name}  ${shown(line)}`));
const ended = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => ended.abort());
}

for (const name of ['one', 'two', 'three']) replicas.start(name);
console.log(
  'Three replicas; the one that leads sends the mail, and is ended now and then. Ctrl-C.',
);
await Promise.all([sendMail(), endLeaders()]).catch((error: unknown) => {
  if (!ended.signal.aborted) throw error;
});
await replicas.stop();
redis.disconnect();
await server.stop();

async function sendMail(): Promise<void> {
  for (let mail = 1; ; mail += 1) {
    await writeMail(redis, `mail ${mail}`);
    await sleep(MAIL_EVERY_MS, undefined, ended);
  }
}

async function endLeaders(): Promise<void> {
  for (let turn = 0; ; turn += 1) {
    await sleep(ENDS_EVERY_MS, undefined, ended);
    if (replicas.leader === undefined) continue;
    const signal = turn % 2 === 0 ? 'SIGKILL' : 'SIGTERM';
    const name = await replicas.endLeader(signal);
    console.log(
      `${name}  was ended by ${signal}: ${signal === 'SIGKILL' ? 'its lease has to end' : 'another one leads at once'}`,
    );
    replicas.start(name);
  }
}

/** The line of a Nest logger without its date. */
function shown(line: string): string {
  return line.replace(/^\[Nest\].*?(?=LOG|WARN|ERROR)/, '');
}
