/** Locks that calls nest in opposite orders are found before two of these calls meet. */
import { describe, expect, it } from '@jest/globals';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import type { WithLockOptions } from '../../libs/nestjs-locked/src/core/lock.options.js';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { InMemoryLockStore } from '../../libs/nestjs-locked/src/testing/in-memory-lock-store.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import { FakeClock } from '../support/fake-clock.js';

function start() {
  const events: LockEvent[] = [];
  const clock = new FakeClock();
  const engine = new LockEngine({
    store: new InMemoryLockStore(new InMemoryLocks(clock), 30_000),
    options: resolveServiceOptions({}),
    report: (event) => void events.push(event),
    clock,
  });
  /** Locks these keys one inside the other. */
  const nest = async (
    keys: readonly (string | readonly string[])[],
    options: WithLockOptions = {},
  ): Promise<void> => {
    const [key, ...inner] = keys;
    if (key === undefined) return;
    const method = `Service.${String(key)}`;
    await engine.withLock(key, options, () => nest(inner, options), method);
  };
  const rings = (): string[] =>
    events.flatMap((event) =>
      event.type === 'opposite-orders'
        ? event.ring.map(({ held, wanted }) => `${held} > ${wanted}`).join(', ')
        : [],
    );
  return { engine, nest, rings, events };
}

const pair = (first: string, second: string): string[] => [first, second];
const bothWays = (one: string, other: string): string[][] => [pair(one, other), pair(other, one)];

describe('locks that are nested in opposite orders', () => {
  it('are reported once, with the templates and both methods, although the calls have not met', async () => {
    const { nest, events } = start();
    await nest(['stock:1', 'order:1']);
    expect(events).toEqual([]);
    await nest(['order:2', 'stock:2']);
    await nest(['order:3', 'stock:3']);
    await nest(['stock:3', 'order:3']);
    expect(events).toEqual([
      {
        type: 'opposite-orders',
        ring: [
          {
            held: 'order:*',
            heldBy: 'Service.order:2',
            wanted: 'stock:*',
            wantedBy: 'Service.stock:2',
          },
          {
            held: 'stock:*',
            heldBy: 'Service.stock:1',
            wanted: 'order:*',
            wantedBy: 'Service.order:1',
          },
        ],
      },
    ]);
  });

  it('are found over several calls', async () => {
    const { nest, rings } = start();
    await nest(['a:1', 'b:1']);
    await nest(['b:1', 'c:1']);
    await nest(['x:1', 'a:1']);
    expect(rings()).toEqual([]);
    await nest(['c:1', 'a:1']);
    expect(rings()).toEqual(['c:* > a:*, a:* > b:*, b:* > c:*']);
  });

  it('are found if one of them is requested with others, or held further out', async () => {
    const { nest, rings } = start();
    await nest(['a:1', 'b:1', 'c:1']);
    await nest([['c:1', 'd:1'], 'a:1']);
    expect(rings()).toEqual(['c:* > a:*, a:* > b:*, b:* > c:*']);
    const direct = start();
    await direct.nest(['a:1', 'b:1']);
    await direct.nest(['b:1', ['a:1', 'e:1']]);
    expect(direct.rings()).toEqual(['b:* > a:*, a:* > b:*']);
  });

  it.each<[string, readonly (readonly (string | readonly string[])[])[], WithLockOptions]>([
    ['are the same everywhere', [pair('a:1', 'b:1'), pair('a:2', 'b:2')], {}],
    ['are of one template, whose keys have their own order', bothWays('a:1', 'a:2'), {}],
    ['are requested together', [[['a:1', 'b:1']], [['b:1', 'a:1']]], {}],
    ['are joined', [['a:1', 'b:1', 'a:1']], {}],
    ['have templates that nobody knows', bothWays('a', 'b:1'), {}],
    ['do not wait', bothWays('a:1', 'b:1'), { waitMs: 0 }],
  ])('are not reported if they %s', async (_, calls, options) => {
    const { nest, rings } = start();
    for (const keys of calls) await nest(keys, options);
    expect(rings()).toEqual([]);
  });

  it('are told apart by what they lock, not by the names of parameters', async () => {
    const { engine, rings } = start();
    const nested = (held: string, wanted: string): Promise<void> => {
      const inner = (): Promise<void> =>
        engine.withLock(wanted.replace(/<.*>/, '2'), {}, () => {}, 'Inner.call', wanted);
      return engine.withLock(held.replace(/<.*>/, '1'), {}, inner, 'Outer.call', held);
    };
    await nested('account:<from>', 'account:<to>');
    await nested('account:<to>', 'account:<from>');
    expect(rings()).toEqual([]);
    await nested('account:<from>', 'order:<id>');
    await nested('order:<orderId>', 'account:<to>');
    expect(rings()).toEqual(['order:<orderId> > account:<to>, account:<from> > order:<id>']);
  });

  it('are those of calls inside each other, and not of calls one after the other', async () => {
    const { engine, rings } = start();
    for (const [first, second] of [
      ['a:1', 'b:1'],
      ['b:1', 'a:1'],
    ] as const) {
      await engine.withLock(first, {}, () => {});
      await engine.withLock(second, {}, () => {});
    }
    expect(rings()).toEqual([]);
  });

  it('are forgotten beyond a thousand, so that made-up templates do not stay in memory', async () => {
    const { engine, nest, rings } = start();
    await engine.withLock('outer:1', {}, async () => {
      for (let i = 0; i < 1_000; i++)
        await engine.withLock('key', {}, () => {}, 'made-up', `made-up-${i}:<id>`);
    });
    await nest(['a:1', 'b:1']);
    await nest(['b:1', 'a:1']);
    expect(rings()).toEqual([]);
  });
});
