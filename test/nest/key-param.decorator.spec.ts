import { describe, expect, it } from '@jest/globals';
import { LockConfigError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { KeyParam } from '../../libs/nestjs-locked/src/nest/decorator/key-param.decorator.js';
import { Locked } from '../../libs/nestjs-locked/src/nest/decorator/locked.decorator.js';
import { RecordingLocks } from './recording-locks.js';

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
    }).toThrow("Cannot bind <key> in 'stock:<key>' of Sub.take: its parameters are 'id'");
  });

  it('is refused where it has no meaning', () => {
    const wrongPlace =
      "Cannot apply @KeyParam('id') in Stock: it can only be used on the parameters";
    expect(() => {
      class Stock {
        constructor(@KeyParam('id') readonly id: string) {}
      }
      return Stock;
    }).toThrow(wrongPlace);
    expect(() => {
      class Stock {
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
    }).toThrow('two parameters of move have this name');
    expect(() => {
      class Stock {
        async take(@KeyParam('order.sku') order: object) {
          return Promise.resolve(order);
        }
      }
      return Stock;
    }).toThrow(LockConfigError);
  });
});
