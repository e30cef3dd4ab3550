/**
 * What the compiler must accept and refuse; nothing here runs. `npm run typecheck` fails when an expected error is
 * missing.
 */
import { applyDecorators, Get } from '@nestjs/common';
import type { Observable } from 'rxjs';
import { lockKey } from '../../libs/nestjs-locked/src/core/keys/lock-key.js';
import { KeyParam } from '../../libs/nestjs-locked/src/nest/decorator/key-param.decorator.js';
import { Locked } from '../../libs/nestjs-locked/src/nest/decorator/locked.decorator.js';
import type { LockedOptions } from '../../libs/nestjs-locked/src/nest/decorator/locked.options.js';
import type { LockService } from '../../libs/nestjs-locked/src/nest/lock.service.js';

declare const anything: never;
declare const options: LockedOptions;
declare const locks: LockService;

export abstract class Accepted {
  @Locked('stock:<id>')
  async promise(id: string): Promise<string> {
    return Promise.resolve(id);
  }

  @Locked('stock:<id>')
  async inferred(id: string) {
    return Promise.resolve(id);
  }

  @Locked('stock:<id>', { waitMs: 0, leaseMs: 1000, service: 'billing', returns: 'observable' })
  observable(_id: string): Observable<number> {
    return anything;
  }

  @Locked('stock:<id>')
  async *generator(id: string) {
    yield Promise.resolve(id);
  }

  @Locked('all', { returns: 'iterable' })
  iterable(): AsyncIterable<number> {
    return anything;
  }

  @Locked('all')
  any(): ReturnType<typeof JSON.parse> {
    return anything;
  }

  // eslint-disable-next-line no-restricted-syntax -- applications have such methods
  @Locked('stock:<id>')
  private async hidden(id: string) {
    return Promise.resolve(id);
  }

  @Locked((id: string) => lockKey`stock:${id}`)
  async annotated(id: string, _quantity: number): Promise<string> {
    return this.hidden(id);
  }

  @Locked((id: string, quantity: number) => lockKey`stock:${id}:${quantity}`)
  async optional(id: string, _quantity?: number) {
    return Promise.resolve(id);
  }

  @Locked<Accepted['typed']>((id, quantity) => lockKey`stock:${id}:${quantity.toFixed()}`)
  async typed(id: string, _quantity: number) {
    return Promise.resolve(id);
  }

  @Locked(() => 'all')
  async constant(id: string) {
    return Promise.resolve(id);
  }

  @Locked('all', { onBusy: 'skip' })
  async skippedVoid() {
    return Promise.resolve();
  }

  @Locked('stock:<id>', { onBusy: 'skip' })
  async skippedOptional(id: string): Promise<string | undefined> {
    return Promise.resolve(id);
  }

  @Locked('all', { onBusy: 'skip' })
  async skippedUnknown(): Promise<unknown> {
    return Promise.resolve(1);
  }

  @Locked('all', { onBusy: 'skip' })
  skippedAny(): ReturnType<typeof JSON.parse> {
    return anything;
  }

  @Locked('all', { onBusy: 'skip' })
  skippedObservable(): Observable<number> {
    return anything;
  }

  @Locked('all', { onBusy: 'skip' })
  async *skippedIterable() {
    yield Promise.resolve(1);
  }

  @Locked((id: string) => lockKey`stock:${id}`, { onBusy: 'skip' })
  async skippedWithFunction(id: string): Promise<string | undefined> {
    return Promise.resolve(id);
  }

  @Locked<Accepted['skippedTyped']>((id) => lockKey`stock:${id}`, { onBusy: 'skip' })
  async skippedTyped(id: string): Promise<string | undefined> {
    return Promise.resolve(id);
  }

  // Known only at run time.
  @Locked('stock:<id>', options)
  async skippedPerhaps(id: string): Promise<string> {
    return Promise.resolve(id);
  }

  @Locked('stock:<id>', { onBusy: () => 'busy' })
  async substituted(id: string): Promise<string> {
    return Promise.resolve(id);
  }

  @Locked('stock:<id>', { onBusy: ({ key }) => key })
  async substitutedFromContext(id: string): Promise<string> {
    return Promise.resolve(id);
  }

  @Locked('stock:<id>', { waitMs: 0, onBusy: ({ holder }) => holder?.host })
  async substitutedWithHolder(id: string): Promise<string | undefined> {
    return Promise.resolve(id);
  }

  @Locked((id: string) => lockKey`stock:${id}`, { onBusy: async ({ key }) => Promise.resolve(key) })
  async substitutedInFunctionForm(id: string): Promise<string> {
    return Promise.resolve(id);
  }

  @Locked('stock:<id>', { onBusy: async () => Promise.resolve(undefined) })
  async substitutedLater(id: string): Promise<string | undefined> {
    return Promise.resolve(id);
  }

  @Locked('stock:<id>', {
    onBusy: () => {
      throw new Error('come back later');
    },
  })
  async refusedWhenBusy(id: string): Promise<string> {
    return Promise.resolve(id);
  }

  @Locked('stock:<id>', { onBusy: () => [1, 2] })
  substitutedObservable(_id: string): Observable<number> {
    return anything;
  }

  @Locked<Accepted['substitutedTyped']>((id) => lockKey`stock:${id}`, { onBusy: () => 'busy' })
  async substitutedTyped(id: string): Promise<string> {
    return Promise.resolve(id);
  }

  async overloaded(id: string): Promise<string>;
  async overloaded(id: number): Promise<number>;
  @Locked('stock:<id>')
  async overloaded(id: string | number) {
    return Promise.resolve(id);
  }

  @Locked('stock:<id>')
  protected async generic<T>(this: Accepted, id: T, @KeyParam('other') _other: T) {
    return Promise.resolve(id);
  }

  @Locked((...ids: string[]) => ids.map((id) => lockKey`stock:${id}`))
  async rest(...ids: string[]) {
    return Promise.resolve(ids);
  }

  @Locked('stock')
  async [Symbol.asyncDispose](): Promise<void> {}

  @Exclusive('stock:<id>')
  async exclusive(id: string) {
    return Promise.resolve(id);
  }

  @Composed()
  async composed(id: string) {
    return Promise.resolve(id);
  }
}

function Exclusive(template: string): ReturnType<typeof Locked> {
  return Locked(template);
}

/** By hand: the type of the descriptor says nothing about the method. */
Locked('stock')({}, 'take', Object.getOwnPropertyDescriptor(Accepted.prototype, 'rest'));
const onParameter: ParameterDecorator = KeyParam('id');
void onParameter;

function Composed() {
  const decorators: MethodDecorator[] = [
    Locked('stock:<id>'),
    Locked((id: string) => lockKey`stock:${id}`),
    Locked('stock:<id>', { onBusy: 'skip' }),
    Locked<Accepted['typed']>((id) => lockKey`stock:${id}`),
  ];
  return applyDecorators(...decorators, Locked('stock:<id>'), Get());
}

export class Refused {
  // @ts-expect-error a plain value: the call would give a Promise where the types say number
  @Locked('stock:<id>')
  plain(id: string): number {
    return id.length;
  }

  // @ts-expect-error nothing is a plain value, too
  @Locked('stock:<id>')
  nothing(_id: string): void {}

  // @ts-expect-error sometimes a plain value
  @Locked('stock:<id>')
  sometimes(id: string): Promise<string> | string {
    return id;
  }

  // @ts-expect-error a plain value in the function form
  @Locked((id: string) => lockKey`stock:${id}`)
  plainWithFunction(id: string): number {
    return id.length;
  }

  // @ts-expect-error the key function takes a number where the method takes a string
  @Locked((id: number) => lockKey`stock:${id}`)
  async otherParameter(id: string) {
    return Promise.resolve(id);
  }

  // @ts-expect-error the key function takes more than the method
  @Locked((id: string, quantity: number) => lockKey`stock:${id}:${quantity}`)
  async tooMany(id: string) {
    return Promise.resolve(id);
  }

  // @ts-expect-error the method is not the one that is named
  @Locked<Accepted['typed']>((id) => lockKey`stock:${id}`)
  async otherMethod(id: number) {
    return Promise.resolve(id);
  }

  // @ts-expect-error parameters without annotation are unknown, not any
  @Locked((id) => lockKey`stock:${id}`)
  async unannotated(id: string) {
    return Promise.resolve(id);
  }

  // @ts-expect-error a key is a string
  @Locked((id: string) => id.length)
  async keyIsNumber(id: string) {
    return Promise.resolve(id);
  }

  // @ts-expect-error a key is not a Promise
  @Locked(async (id: string) => Promise.resolve(lockKey`stock:${id}`))
  async keyIsPromise(id: string) {
    return Promise.resolve(id);
  }

  // @ts-expect-error the caller of a skipped method gets undefined
  @Locked('stock:<id>', { waitMs: 0, onBusy: 'skip' })
  async skipped(id: string): Promise<string> {
    return Promise.resolve(id);
  }

  // @ts-expect-error the same in the function form
  @Locked((id: string) => lockKey`stock:${id}`, { onBusy: 'skip' })
  async skippedWithFunction(id: string): Promise<string | null> {
    return Promise.resolve(id);
  }

  // @ts-expect-error a number where the method returns a text
  @Locked('stock:<id>', { onBusy: () => 5 })
  async otherResult(id: string): Promise<string> {
    return Promise.resolve(id);
  }

  // @ts-expect-error the same in the function form
  @Locked((id: string) => lockKey`stock:${id}`, { onBusy: async () => Promise.resolve(5) })
  async otherResultWithFunction(id: string): Promise<string> {
    return Promise.resolve(id);
  }

  // @ts-expect-error the same for a method that is named
  @Locked<Refused['otherResultTyped']>((id) => lockKey`stock:${id}`, { onBusy: () => 5 })
  async otherResultTyped(id: string): Promise<string> {
    return Promise.resolve(id);
  }

  // @ts-expect-error a function that gives nothing
  @Locked('stock:<id>', { onBusy: () => {} })
  async nothingInstead(id: string): Promise<string> {
    return Promise.resolve(id);
  }

  // @ts-expect-error the same for a method that is named
  @Locked<Refused['skippedTyped']>((id) => lockKey`stock:${id}`, { onBusy: 'skip' })
  async skippedTyped(id: string): Promise<number> {
    return Promise.resolve(id.length);
  }

  // @ts-expect-error a plain value is none of the better for it
  @Locked('stock:<id>', { onBusy: 'skip' })
  skippedPlain(id: string): number | undefined {
    return id.length;
  }

  // @ts-expect-error not a method
  @Locked('stock')
  property = async () => Promise.resolve();
}

// @ts-expect-error all calls would share the signal
Locked('stock', { signal: AbortSignal.abort() });
// @ts-expect-error one of three
Locked('stock', { returns: 'array' });
// Each of these is reported at the wrong option itself, not at the key or at the whole call.
Locked('stock', {
  // @ts-expect-error not an option
  ttl: 5,
});
Locked((id: string) => lockKey`stock:${id}`, {
  // @ts-expect-error not an option
  ttl: 5,
});
Locked<Accepted['typed']>((id) => lockKey`stock:${id}`, {
  // @ts-expect-error not an option
  ttl: 5,
});
Locked('stock', {
  // @ts-expect-error a text where a number belongs
  waitMs: '5',
});
void locks
  .withLock('stock', { waitMs: 5, onBusy: 'skip' }, () => 5)
  .then((left) => left?.toFixed());
void locks
  .withLock('stock', { onBusy: () => 'busy' }, () => 5)
  .then((left) => [left] satisfies (string | number)[]);
void locks
  .withLock('stock', { waitMs: 0, onBusy: ({ holder }) => holder?.host }, async (lock) =>
    Promise.resolve(lock.key),
  )
  .then((result) => result?.length);
void locks.withLock('stock', { waitMs: 5 }, () => 5).then((left) => left.toFixed());
void locks.withLock(
  'stock',
  {
    // @ts-expect-error not an option
    ttl: 5,
  },
  () => 5,
);
// @ts-expect-error the result is undefined while somebody else has the lock
void locks.withLock('stock', { onBusy: 'skip' }, () => 5).then((left) => left.toFixed());
// Mocks have the type of the last overload.
export const ofMock: Parameters<typeof locks.withLock>[1] = { waitMs: 5, onBusy: 'skip' };
// @ts-expect-error the options come before the work
void locks.withLock('stock', () => 5, { waitMs: 5 });
// @ts-expect-error not a value for a key
export const fromNothing = lockKey`stock:${undefined}`;
// @ts-expect-error not a value for a key
export const fromDate = lockKey`stock:${new Date()}`;
