import type { Observable } from 'rxjs';
import type { BusyContext } from '../../core/lock.options.js';

// A type for every function must take `any` arguments: `unknown` or `never` would lose the `Parameters` and
// `ReturnType` of the method.
/* eslint-disable @typescript-eslint/no-explicit-any */

/** Any method; its parameters and its result are inferred. */
export type AnyMethod = (...args: any[]) => any;

type Settles = PromiseLike<unknown> | Observable<unknown> | AsyncIterable<unknown>;

/** Accepts a method whose callers await it anyway, and requires of any other a property that it cannot have. */
type Async<M extends AnyMethod> = 0 extends 1 & ReturnType<M>
  ? unknown
  : [ReturnType<M>] extends [Settles]
    ? unknown
    : {
        '@Locked makes the call asynchronous: declare the method async (or return an Observable / async iterable)': ReturnType<M>;
      };

/** The value that the caller of a method gets eventually. An Observable or an iterable may end without one. */
type Settled<R> = [Extract<R, PromiseLike<unknown>>] extends [never]
  ? unknown
  : Awaited<Extract<R, PromiseLike<unknown>>>;

/**
 * The result of `onBusy` must fit the type of the method; `void` allows undefined. Options whose type leaves `onBusy`
 * open are accepted.
 */
type MayGive<Given, M extends AnyMethod> = unknown extends Given
  ? unknown
  : [Given] extends [Settled<ReturnType<M>>]
    ? unknown
    : [Given] extends [undefined]
      ? {
          "with onBusy: 'skip' the result is undefined while somebody else has the lock: declare it, as in Promise<Result | undefined>": ReturnType<M>;
        }
      : { 'onBusy returns what this method does not return': ReturnType<M> };

/** The values of `onBusy` that fit the type of this method. */
export type FittingOnBusy<M extends AnyMethod> =
  | 'throw'
  | (undefined extends Settled<ReturnType<M>> ? 'skip' : never)
  | ((busy: BusyContext) => Settled<ReturnType<M>> | PromiseLike<Settled<ReturnType<M>>>);

/** The key function may take fewer parameters than the method, but not different ones. */
type Takes<A extends unknown[], M extends AnyMethod> =
  Parameters<M> extends [...A, ...any[]]
    ? unknown
    : A extends Partial<Parameters<M>>
      ? unknown
      : { 'the key function does not take the parameters of this method': Parameters<M> };

/**
 * Makes the decorator assignable to `MethodDecorator`, for `applyDecorators`. Nothing has this `this`, so this
 * signature is never chosen for a decorator above a method.
 */
interface Composable {
  <T>(
    this: { readonly composable: never },
    target: object,
    key: string | symbol,
    descriptor: TypedPropertyDescriptor<T>,
  ): void;
}

/**
 * A decorator for methods that return a Promise, an Observable or an async iterable, and whose parameters begin with
 * `A`.
 *
 * @typeParam Given the result of a call while somebody else holds the lock; `never` means that it fails
 */
export interface LockedMethod<A extends unknown[] = unknown[], Given = never> extends Composable {
  <M extends AnyMethod>(
    target: object,
    key: string | symbol,
    descriptor: TypedPropertyDescriptor<M> & Async<M> & MayGive<Given, M> & Takes<A, M>,
  ): void;
}

/** A decorator for methods of one type. */
export interface LockedMethodOf<M extends AnyMethod> extends Composable {
  (target: object, key: string | symbol, descriptor: TypedPropertyDescriptor<M> & Async<M>): void;
}
