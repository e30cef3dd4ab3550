import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  Controller,
  Injectable,
  Logger,
  type ModuleMetadata,
  type OnModuleInit,
  type Provider,
  Scope,
} from '@nestjs/common';
import { LazyModuleLoader } from '@nestjs/core';
import { Test, type TestingModule } from '@nestjs/testing';
import { LockConfigError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { KeyParam } from '../../libs/nestjs-locked/src/nest/decorator/key-param.decorator.js';
import { Locked } from '../../libs/nestjs-locked/src/nest/decorator/locked.decorator.js';
import { RecordingLockModule, RecordingLocks } from './recording-locks.js';

class Stock {
  @Locked('stock:<id>')
  async take(id: string) {
    return Promise.resolve(id);
  }
}

describe('LockedInstances', () => {
  let locks: RecordingLocks;
  let modules: TestingModule[];
  beforeEach(() => {
    locks = new RecordingLocks();
    modules = [];
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    await Promise.all(modules.map((module) => module.close()));
  });

  async function start(
    providers: Provider[],
    ...imports: NonNullable<ModuleMetadata['imports']>
  ): Promise<TestingModule> {
    const module = await Test.createTestingModule({
      imports: [RecordingLockModule.with(locks), ...imports],
      providers,
    }).compile();
    modules.push(module);
    return module.init();
  }

  it('gives a service to instances made by useFactory and useValue', async () => {
    const value = new Stock();
    const module = await start([
      { provide: 'factory', useFactory: () => new Stock() },
      { provide: 'async', useFactory: () => Promise.resolve(new Stock()) },
      { provide: 'value', useValue: value },
      { provide: 'alias', useExisting: 'value' },
      { provide: 'plain', useValue: 42 },
      { provide: 'none', useValue: null },
      { provide: 'null prototype', useValue: Object.create(null) as object },
    ]);
    await module.get<Stock>('factory').take('a');
    await module.get<Stock>('async').take('b');
    await value.take('c');
    expect(locks.keys).toEqual(['stock:a', 'stock:b', 'stock:c']);
  });

  it('does so before the onModuleInit of the application', async () => {
    class Early extends Stock implements OnModuleInit {
      async onModuleInit() {
        await this.take('early');
      }
    }
    await start([{ provide: Early, useFactory: () => new Early() }]);
    expect(locks.keys).toEqual(['stock:early']);
  });

  it('takes each service from its own module, and does not replace one that is set', async () => {
    class Billing extends Stock {
      @Locked('invoice:<id>', { service: 'billing' })
      async pay(id: string) {
        return Promise.resolve(id);
      }
    }
    const named = new RecordingLocks();
    const mine = new RecordingLocks();
    const other = mine.give(new Stock());
    const module = await start(
      [
        { provide: Billing, useFactory: () => new Billing() },
        { provide: 'other', useValue: other },
      ],
      RecordingLockModule.with(named, 'billing'),
    );
    await module.get(Billing).take('a');
    await module.get(Billing).pay('b');
    await other.take('c');
    expect([locks.keys, named.keys, mine.keys]).toEqual([['stock:a'], ['invoice:b'], ['stock:c']]);
  });

  it('gives an instance that outlives its application the service of the next one', async () => {
    const value = new Stock();
    const providers = [{ provide: 'value', useValue: value }];
    await (await start(providers)).close();
    await value.take('a'); // the recording service works on
    const first = locks;
    locks = new RecordingLocks();
    await start(providers);
    await value.take('b');
    expect([first.keys, locks.keys]).toEqual([['stock:a'], ['stock:b']]);
  });

  it('gives instances that cannot be extended their services, each its own', async () => {
    @Injectable()
    class Fixed extends Stock {
      constructor() {
        super();
        Object.freeze(this);
      }
    }
    const value = Object.freeze(new Stock());
    const module = await start([
      Fixed,
      { provide: 'value', useValue: value },
      { provide: 'sealed', useFactory: () => Object.seal(new Stock()) },
    ]);
    await module.get(Fixed).take('a');
    await value.take('b');
    await module.get<Stock>('sealed').take('c');
    expect(locks.keys).toEqual(['stock:a', 'stock:b', 'stock:c']);
    await expect(Object.freeze(new Stock()).take('d')).rejects.toThrow('has no LockService');
  });

  it('gives a service to an object that was decorated by hand, and to no other of its class', async () => {
    class Shelf {
      async take(id: string) {
        return Promise.resolve(id);
      }
    }
    const shelf = new Shelf();
    const take = { value: (id: string) => Promise.resolve(id) };
    Locked('shelf:<id>')(shelf, 'take', take);
    Object.defineProperty(shelf, 'take', take);
    await start([{ provide: 'value', useValue: shelf }]);
    await shelf.take('a');
    expect(locks.keys).toEqual(['shelf:a']);

    const withoutLocks = await Test.createTestingModule({ providers: [Shelf] }).compile();
    modules.push(withoutLocks);
    expect(await withoutLocks.get(Shelf).take('b')).toBe('b');
  });

  it('ignores a proxy that refuses to be inspected', async () => {
    const refuse = () => {
      throw new Error('nobody may look');
    };
    const secret: object = new Proxy({}, { getOwnPropertyDescriptor: refuse });
    const module = await start([Stock, { provide: 'secret', useValue: secret }]);
    await module.get(Stock).take('a');
    expect(locks.keys).toEqual(['stock:a']);
  });

  it('keeps the application from starting if a service is missing', async () => {
    class Billing {
      @Locked('invoice', { service: 'billing' })
      async pay() {
        return Promise.resolve();
      }
    }
    const starting = start([{ provide: Billing, useFactory: () => new Billing() }]);
    await expect(starting).rejects.toBeInstanceOf(LockConfigError);
    await expect(starting).rejects.toThrow(
      "Cannot lock Billing.pay: no module provides its lock service; import RedisLockModule.forRoot({ name: 'billing' }) in the root module",
    );
  });

  it('ignores request-scoped factories: they fail at the first call', async () => {
    const module = await start([
      { provide: Stock, scope: Scope.REQUEST, useFactory: () => new Stock() },
    ]);
    const stock = await module.resolve(Stock);
    await expect(stock.take('a')).rejects.toThrow('this instance has no LockService');
  });

  it('does not see values that are loaded lazily: they refuse to run, unlike classes', async () => {
    @Injectable()
    class Provided extends Stock {}
    class LazyModule {}
    const providers = [
      Provided,
      { provide: 'factory', useFactory: () => new Stock() },
      { provide: 'value', useValue: new Stock() },
    ];
    const loader = (await start([])).get(LazyModuleLoader);
    const lazy = await loader.load(() => ({ module: LazyModule, providers }));
    await lazy.get(Provided).take('a');
    for (const token of ['factory', 'value'])
      await expect(lazy.get<Stock>(token).take('b')).rejects.toThrow('has no LockService');
    expect(locks.keys).toEqual(['stock:a']);
  });

  it('warns of decorators above @Locked, which begin before the lock is taken', async () => {
    const Wrapping =
      (): MethodDecorator =>
      (_target, _name, descriptor: PropertyDescriptor): void => {
        descriptor.value = new Proxy(descriptor.value as () => unknown, {});
      };
    @Injectable()
    class Orders {
      @Wrapping()
      @Locked('order:<id>')
      async place(id: string) {
        return Promise.resolve(id);
      }

      @Locked('order:<id>')
      @Wrapping()
      async cancel(id: string) {
        return Promise.resolve(id);
      }
    }
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => {});
    await start([Orders]);
    expect(warn.mock.calls).toEqual([
      [expect.stringMatching(/^Orders\.place: a decorator above @Locked acts/)],
    ]);
  });

  it('warns of @KeyParam on a method that takes no lock', async () => {
    class Base {
      async take(@KeyParam('id') id: string) {
        return Promise.resolve(id);
      }

      async look(@KeyParam('id') id: string) {
        return Promise.resolve(id);
      }
    }
    @Injectable()
    class Orders extends Base {
      @Locked('order:<id>')
      override async take(@KeyParam('id') id: string) {
        return Promise.resolve(id);
      }
    }
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => {});
    await start([Orders]);
    expect(warn.mock.calls).toEqual([
      ['Base.look has a @KeyParam and takes no lock; put @Locked on it, or leave @KeyParam out'],
    ]);
  });

  it('warns once of overrides that take no lock, and of no others', async () => {
    @Injectable()
    class Unlocked extends Stock {
      override async take(id: string) {
        return Promise.resolve(`unlocked ${id}`);
      }
    }
    @Injectable({ scope: Scope.REQUEST })
    class Deeper extends Unlocked {}
    @Controller()
    class Calls extends Stock {
      override async take(id: string) {
        return `calls ${await super.take(id)}`;
      }
    }
    @Injectable()
    class Locks extends Unlocked {
      @Locked('other:<id>')
      override async take(id: string) {
        return Promise.resolve(id);
      }
    }
    @Injectable()
    class CallsUnlocked extends Unlocked {
      override async take(id: string) {
        return `calls ${await super.take(id)}`;
      }
    }
    class Shelf extends Stock {
      async look(id: string) {
        return Promise.resolve(id);
      }
    }
    @Injectable()
    class CallsAnother extends Shelf {
      override async take(id: string) {
        return super.look(id);
      }
    }
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => {});
    const named = RecordingLockModule.with(new RecordingLocks(), 'billing');
    const module = await start([Stock, Unlocked, Deeper, Calls, Locks], named);
    expect(warn.mock.calls).toEqual([
      [
        'Unlocked.take overrides the locked Stock.take and takes no lock; put @Locked on it, or call super.take',
      ],
    ]);
    await module.get(Calls).take('a');
    await module.get(Locks).take('b');
    expect(locks.keys).toEqual(['stock:a', 'other:b']);

    warn.mockClear();
    await start([CallsUnlocked]);
    expect(warn).toHaveBeenCalledTimes(1);
    await start([CallsAnother]);
    expect(warn).toHaveBeenCalledTimes(2);
  });
});
