import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { eventually } from '../../../test/support/eventually.js';
import { useRedisServer } from '../../../test/support/own-redis.js';
import { Processes } from '../src/processes.js';

const heard: string[] = [];
let processes: Processes;

afterAll(() => processes.stop());
const redisServer = useRedisServer();

beforeAll(async () => {
  processes = new Processes(redisServer.url, (_, line) => heard.push(line));
  processes.start('api');
  await eventually(() => expect(processes.apiUrl).toBeDefined());
});

const told = (account: string): string[] =>
  heard.flatMap((line) => new RegExp(`account ${account}: (\\w+)$`).exec(line)?.[1] ?? []);

describe('export-jobs', () => {
  it('an account stays locked from the request to the end of its job, although the API is killed', async () => {
    expect((await processes.export('anna')).status).toBe(202);
    const busy = await processes.export('anna'); // the job lies in the queue
    expect(busy.status).toBe(423);
    expect(busy.headers.get('retry-after')).toBe('1');
    await processes.end('api', 'SIGKILL');

    processes.start('worker');
    processes.start('api');
    await eventually(() => expect(told('anna')).toEqual(['begun']));
    await eventually(async () => expect((await processes.export('ben')).status).toBe(202));
    await eventually(() => expect(told('anna')).toEqual(['begun', 'done']));
    await eventually(async () => expect((await processes.export('anna')).status).toBe(202));
    await eventually(() => expect(told('anna')).toEqual(['begun', 'done', 'begun', 'done']));
    expect(heard.filter((line) => line.includes('taken anew'))).toEqual([]);
  });

  it('a job whose worker is killed takes the lock anew', async () => {
    expect((await processes.export('carl')).status).toBe(202);
    await eventually(() => expect(told('carl')).toEqual(['begun']));
    await processes.end('worker', 'SIGKILL');
    processes.start('worker');
    await eventually(() => expect(told('carl')).toEqual(['begun', 'begun', 'done']), 120_000);
    expect(heard.some((line) => line.includes('the lock of account carl is taken anew'))).toBe(
      true,
    );
  }, 150_000);
});
