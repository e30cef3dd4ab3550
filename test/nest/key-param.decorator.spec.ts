import { describe, expect, it } from '@jest/globals';
import { LockConfigError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { KeyParam } from '../../libs/nestjs-locked/src/nest/decorator/key-param.decorator.js';
import { Locked } from '../../libs/nestjs-locked/src/nest/decorator/locked.decorator.js';
import { RecordingLocks } from './recording-locks.js';

/** The decorator without its types, as code that is not type-checked uses it. */
type Loose = (...args: unknown[]) => (...args: unknown[]) => void;

const STOCK: object = class Stock {}.prototype;

describe('@KeyParam', () => {
  it('names parameters, whatever the source calls them', async () => {
    class Stock {
      @Locked('stock:<id>:<order.sku>:<q>')
      async take(
        @KeyParam('order') { sku }: { sku: string },
        @KeyParam('id') t: string,
        @KeyParam('q') quantity: number,
      ) {
        return Promise.resolve([sku, t, quantity]);
      }
    }
    const locks = new RecordingLocks();
    await locks.give(new Stock()).take({ sku: 's' }, 'x', 3);
    expect(locks.keys).toEqual(['stock:x:s:3']);
  });

  it('takes precedence over the name in the source', async () => {
    class Stock {
      @Locked('stock:<id>')
      async take(id: string, @KeyParam('id') other: string) {
        return Promise.resolve([id, other]);
      }
    }
    const locks = new RecordingLocks();
    await locks.give(new Stock()).take('wrong', 'right');
    expect(locks.keys).toEqual(['stock:right']);
  });

  it('belongs to one class: an override has its own', () => {
    class Base {
      @Locked('stock:<key>')
      async take(@KeyParam('key') id: string) {
        return Promise.resolve(id);
      }
    }
    expect(() => {
      class Sub extends Base {
        @Locked('stock:<key>')
        override async take(id: string) {
          return super.take(id);
        }
      }
      return Sub;
    }).toThrow("Cannot bind <key> in 'stock:<key>' of Sub.take: its parameters are <0> id");
  });

  it('is refused where it has no meaning', () => {
    const wrongPlace = 'it can only be used on the parameters of an instance method: async take(';
    expect(() => {
      class Stock {
        // @ts-expect-error not a method
        constructor(@KeyParam('id') readonly id: string) {}
      }
      return Stock;
    }).toThrow(wrongPlace);
    expect(() => {
      class Stock {
        // @ts-expect-error a class has no lock service
        static async take(@KeyParam('id') id: string) {
          return Promise.resolve(id);
        }
      }
      return Stock;
    }).toThrow(wrongPlace);
    expect(() => {
      class Stock {
        async move(@KeyParam('id') from: string, @KeyParam('id') to: string) {
          return Promise.resolve([from, to]);
        }
      }
      return Stock;
    }).toThrow(
      "Cannot apply @KeyParam('id') in Stock.move: another parameter has this name; give each its own",
    );
    expect(() => {
      class Stock {
        async take(@KeyParam('order.sku') order: object) {
          return Promise.resolve(order);
        }
      }
      return Stock;
    }).toThrow(
      "Cannot apply @KeyParam('order.sku') in Stock.take: the name must be an identifier, such as 'order'; a path belongs in the template: @Locked('stock:<order.sku>')",
    );
  });

  it.each<[string, (decorate: Loose) => unknown, string]>([
    [
      'a method',
      (decorate) => decorate('id')(STOCK, 'take', {}),
      "@KeyParam('id') in Stock.take: ",
    ],
    ['a property', (decorate) => decorate('id')(STOCK, 'prop'), "@KeyParam('id') in Stock.prop: "],
    ['a class', (decorate) => decorate('id')(STOCK.constructor), "@KeyParam('id') in Stock: "],
    [
      'use without parentheses',
      (decorate) => decorate(STOCK, 'take', 0),
      "@KeyParam in Stock: it has no name; write it with parentheses, @KeyParam('id')",
    ],
    ['brackets', (decorate) => decorate('<id>')(STOCK, 'take', 0), "such as 'id'; a path belongs"],
    [
      'a position',
      (decorate) => decorate(0)(STOCK, 'take', 0),
      '@KeyParam(0) in Stock.take: the name must be the one that the template uses',
    ],
  ])('refuses %s', (_, decorate, message) => {
    const refused = (): unknown => decorate(KeyParam as unknown as Loose);
    expect(refused).toThrow(LockConfigError);
    expect(refused).toThrow(message);
  });
});
