import { provideRedis } from 'dev-servers';
import { setTimeout as sleep } from 'node:timers/promises';
import { Processes } from './processes.js';

const REQUEST_EVERY_MS = 400;

/** `npm run start:export-jobs`: a Redis, an API, a worker, and requests that export two accounts again and again. */
const server = await provideRedis();
const processes = new Processes(server.url, (name, line) => console.log(`${name}  ${line}`));
const ended = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => ended.abort());
}

processes.start('worker');
processes.start('api');
console.log('Requests lock an account, and jobs go on under the same locks. Ctrl-C ends it.');
await sendRequests().catch((error: unknown) => {
  if (!ended.signal.aborted) throw error;
});
await processes.stop();
await server.stop();

async function sendRequests(): Promise<void> {
  for (let turn = 0; ; turn += 1) {
    await sleep(REQUEST_EVERY_MS, undefined, ended);
    if (processes.apiUrl === undefined) continue;
    const account = ['anna', 'ben'][turn % 2] as string;
    const { status } = await processes.export(account);
    console.log(`request for ${account}: ${status === 202 ? 'queued' : `${status}, it is locked`}`);
  }
}
