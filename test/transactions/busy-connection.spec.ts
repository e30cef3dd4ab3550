import { expect, it } from '@jest/globals';
import { whenIdle } from '../../libs/nestjs-locked/src/transactions/orm/busy-connection.js';

it('who waits behind one that was refused waits all the same, and is not refused', async () => {
  const connection = { readyForQuery: false };
  const answers: (() => void)[] = [];
  const send = (args: unknown[]): unknown => answers.push(args[1] as () => void);
  const refused = whenIdle(connection, send, () => {
    throw new Error('lost');
  });
  let looks = 0;
  const waits = whenIdle(connection, send, () => looks++);
  await expect(refused).rejects.toThrow('lost');
  await new Promise(setImmediate);
  expect(looks).toBe(1);
  connection.readyForQuery = true;
  answers[0]?.();
  await waits;
  expect(looks).toBe(2);
});

it('who waits keeps waiting behind what others have sent meanwhile', async () => {
  const connection = { readyForQuery: false };
  const answers: (() => void)[] = [];
  const send = (args: unknown[]): unknown => answers.push(args[1] as () => void);
  let isIdle = false;
  const waits = whenIdle(connection, send, () => {}).then(() => (isIdle = true));
  await new Promise(setImmediate);
  answers[0]?.();
  await new Promise(setImmediate);
  expect([answers.length, isIdle]).toEqual([2, false]);
  connection.readyForQuery = true;
  answers[1]?.();
  await waits;
});

it('who comes while another one waits sends nothing of its own before that one has been answered', async () => {
  const connection = { readyForQuery: false };
  const answers: (() => void)[] = [];
  const send = (args: unknown[]): unknown => answers.push(args[1] as () => void);
  const waits = [1, 2].map(() => whenIdle(connection, send, () => {}));
  await new Promise(setImmediate);
  expect(answers).toHaveLength(1);
  connection.readyForQuery = true;
  answers[0]?.();
  await Promise.all(waits);
  expect(answers).toHaveLength(1);
});
