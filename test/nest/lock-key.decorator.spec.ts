import { describe, expect, it } from '@jest/globals';
import { LockConfigError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { LockKey } from '../../libs/nestjs-locked/src/nest/decorator/lock-key.decorator.js';
import { Locked } from '../../libs/nestjs-locked/src/nest/decorator/locked.decorator.js';
import { RecordingLocks } from './recording-locks.js';

describe('@LockKey', () => {
  it('names parameters, whatever the source calls them', async () => {
    class Stock {
      @Locked('stock:<id>:<order.sku>:<q>')
      async take(
        @LockKey('order') { sku }: { sku: string },
        @LockKey('id') t: string,
        @LockKey('q') quantity: number,
      ) {
        return Promise.resolve([sku, t, quantity]);
      }
    }
    const locks = new RecordingLocks();
    await locks.give(new Stock()).take({ sku: 's' }, 'x', 3);
    expect(locks.keys).toEqual(['stock:x:s:3']);
  });

  it('comes before the name in the source', async () => {
    class Stock {
      @Locked('stock:<id>')
      async take(id: string, @LockKey('id') other: string) {
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
      async take(@LockKey('key') id: string) {
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

  it('is refused where it means nothing', () => {
    const wrongPlace =
      "Cannot apply @LockKey('id') in Stock: it can only be used on the parameters";
    expect(() => {
      class Stock {
        constructor(@LockKey('id') readonly id: string) {}
      }
      return Stock;
    }).toThrow(wrongPlace);
    expect(() => {
      class Stock {
        static async take(@LockKey('id') id: string) {
          return Promise.resolve(id);
        }
      }
      return Stock;
    }).toThrow(wrongPlace);
    expect(() => {
      class Stock {
        async move(@LockKey('id') from: string, @LockKey('id') to: string) {
          return Promise.resolve([from, to]);
        }
      }
      return Stock;
    }).toThrow('two parameters of move have this name');
    expect(() => {
      class Stock {
        async take(@LockKey('order.sku') order: object) {
          return Promise.resolve(order);
        }
      }
      return Stock;
    }).toThrow(LockConfigError);
  });
});
