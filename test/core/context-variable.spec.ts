import { describe, expect, it } from '@jest/globals';
import { setImmediate as immediate } from 'node:timers/promises';
import { ContextVariable } from '../../libs/nestjs-locked/src/core/context-variable.js';

describe('a context variable', () => {
  const [color, size] = [new ContextVariable<string>(), new ContextVariable<number>()];

  it('has a value in the work of run() and in all that is started there, and none outside', async () => {
    let later: Promise<string | undefined> | undefined;
    const now = color.run('red', () => {
      later = immediate().then(() => color.get());
      return color.get();
    });
    expect([color.get(), now, await later, color.get()]).toEqual([
      undefined,
      'red',
      'red',
      undefined,
    ]);
  });

  it('leaves the other variables as they are', () => {
    const seen = color.run('red', () => size.run(1, () => [color.get(), size.get()]));
    expect(seen).toEqual(['red', 1]);
  });

  it('has the innermost value, and the outer one again afterwards', () => {
    const seen = color.run('red', () => [color.run('blue', () => color.get()), color.get()]);
    expect(seen).toEqual(['blue', 'red']);
  });

  it('is set in one branch only', async () => {
    const seen = await size.run(1, () =>
      Promise.all([
        color.run('red', async () => (await immediate(), color.get())),
        color.run('blue', async () => (await immediate(), color.get())),
        immediate().then(() => color.get()),
      ]),
    );
    expect(seen).toEqual(['red', 'blue', undefined]);
  });

  it('may be set to undefined', () => {
    expect(new ContextVariable<undefined>().run(undefined, () => color.get())).toBeUndefined();
    const seen = color.run('red', () =>
      (color as ContextVariable<string | undefined>).run(undefined, () => color.get()),
    );
    expect(seen).toBeUndefined();
  });
});
