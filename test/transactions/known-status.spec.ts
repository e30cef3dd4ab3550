import { expect, it } from '@jest/globals';
import { KnownStatus } from '../../libs/nestjs-locked/src/transactions/orm/known-status.js';

type Callback = (error: unknown, answer?: unknown) => void;

const header = (serverStatus: number) => ({ affectedRows: 0, serverStatus });
const [OPEN, NONE] = [header(1), header(0)];

/** Asks, and leaves the answer to the test. */
function ask(status: KnownStatus): { asked: Promise<void>; answer: Callback } {
  let answer: Callback = () => {};
  const asked = status.ask((args) => (answer = args[1] as Callback));
  return { asked, answer: (...told) => answer(...told) };
}

it('an older answer than that of the latest statement does not count', async () => {
  const status = new KnownStatus('mysql');
  const { asked, answer } = ask(status);
  await status.after(() => Promise.resolve(NONE));
  answer(null, OPEN);
  await asked;
  expect(status.on({})).toBe('none');
});

it('a driver that does not tell is asked once', async () => {
  const status = new KnownStatus('mysql');
  expect(status.mustBeAsked).toBe(true);
  const { asked, answer } = ask(status);
  answer(null, {});
  await asked;
  expect([status.mustBeAsked, status.on({})]).toEqual([false, undefined]);
});

it('an error is no such answer', async () => {
  const status = new KnownStatus('mysql');
  const { asked, answer } = ask(status);
  answer(new Error('query execution was interrupted'));
  await asked;
  expect(status.on({})).toBe('failed');
});
