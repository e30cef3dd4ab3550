import type { Observable } from 'rxjs';
import type { BusyContext, LockKeys } from '../../core/lock.options.js';

// A type for every function must take `any` arguments: `unknown` or `never` would lose the `Parameters` and
// `ReturnType` of the method.
/* eslint-disable @typescript-eslint/no-explicit-any */

/** Any method; its parameters and its result are inferred. */
export type AnyMethod = (...args: any[]) => any;

type Settles = PromiseLike<unknown> | Observable<unknown> | AsyncIterable<unknown>;

/** The value that the caller of a method gets eventually. An Observable or an iterable may end without one. */
type Settled<R> = [Extract<R, PromiseLike<unknown>>] extends [never]
  ? unknown
  : Awaited<Extract<R, PromiseLike<unknown>>>;

/** The values of `onBusy` that fit the type of this method. */
export type FittingOnBusy<M extends AnyMethod> =
  | 'throw'
  | (undefined extends Settled<ReturnType<M>> ? 'skip' : never)
  | ((busy: BusyContext) => Settled<ReturnType<M>> | PromiseLike<Settled<ReturnType<M>>>);

// What does not fit has a sentence as its type, with which the compiler ends its error.

/** A key as it is; anything else is refused. */
export type ValidKey<Key> = Key extends LockKeys | ((...args: never) => LockKeys)
  ? Key
  : Key extends (...args: never) => unknown
    ? 'The key function must return a key or a list of keys, and not a Promise'
    : "@Locked takes a key, and then options: @Locked('stock:<id>', { waitMs: 0 })";

/**
 * Options as they are; instead of other things, a sentence.
 * @typeParam Allowed the options that there are
 */
export type ValidOptions<Options, Allowed> = Options extends number
  ? 'The lease is renewed while the method runs, so it needs no time: @Locked(key)'
  : Options extends string | readonly unknown[]
    ? "Several keys are a list, and options an object: @Locked(['a', 'b'], { waitMs: 0 })"
    : [Options] extends [never] // the compiler infers the type from this line
      ? Options
      : Allowed & {
          [
            Name in Exclude<keyof Options & string, keyof Allowed>
          ]: `'${Name}' is no option of @Locked: waitMs limits the wait, maxHoldMs the work; the lease is renewed and needs no time`;
        };

/**
 * The target of a decorator that may be put there; anything else is refused. A decorator gets the class alone, or the
 * name as well, or also the descriptor of a method or accessor, or the position of a parameter.
 *
 * @typeParam Refusal a sentence about the method; `unknown` if it fits
 */
type ValidTarget<Target, Name, Descriptor, Refusal> = [Name] extends [undefined]
  ? '@Locked belongs on each method that needs the lock, not on the class or its constructor'
  : [Descriptor] extends [undefined]
    ? '@Locked belongs on a method, and this is a property: write it as a method, async name() { … }'
    : [Descriptor] extends [number]
      ? '@Locked belongs on the method; on its parameter, write @KeyParam'
      : Target extends abstract new (...args: never) => unknown
        ? '@Locked belongs on an instance method: a class gets no LockService injected'
        : unknown extends Refusal
          ? Target
          : Refusal;

type MethodIn<Descriptor> = Descriptor extends TypedPropertyDescriptor<infer Value> ? Value : never;

/** Accepts a method whose callers await it anyway, and `any`. */
type Async<M> = M extends AnyMethod
  ? 0 extends 1 & ReturnType<M>
    ? unknown
    : [ReturnType<M>] extends [Settles]
      ? unknown
      : '@Locked makes the call asynchronous: declare the method async, or return an Observable or async iterable'
  : '@Locked belongs on a method, and this is an accessor: write it as a method, async name() { … }';

/**
 * The result of `onBusy` must fit the type of the method; `void` allows undefined. Options whose type leaves `onBusy`
 * open are accepted.
 */
type MayGive<Given, M extends AnyMethod> = unknown extends Given
  ? unknown
  : [Given] extends [Settled<ReturnType<M>>]
    ? unknown
    : [Given] extends [undefined]
      ? "With onBusy: 'skip' the result is undefined while somebody else has the lock: declare it, as in Promise<Result | undefined>"
      : 'onBusy must return what the method returns';

/** The key function may take fewer parameters than the method, but not different ones. */
type Takes<A extends unknown[], M extends AnyMethod> =
  Parameters<M> extends [...A, ...any[]]
    ? unknown
    : A extends Partial<Parameters<M>>
      ? unknown
      : 'The key function must take the parameters of the method, in their order: the last ones may be left out';

/** The first of two sentences, if it is one. */
type FirstOf<Sentence, Next> = unknown extends Sentence ? Next : Sentence;

type Fitting<M, A extends unknown[], Given> = FirstOf<
  Async<M>,
  M extends AnyMethod ? FirstOf<Takes<A, M>, MayGive<Given, M>> : unknown
>;

type Same<M, Expected> = [M, Expected] extends [Expected, M]
  ? Async<M>
  : '@Locked<…> names another method than the one below it';

/**
 * Makes the decorator assignable to `MethodDecorator`, for `applyDecorators`. No decorator is called without arguments,
 * so the compiler never chooses this signature, nor mentions it in an error.
 */
interface Composable {
  (this: { readonly composable: never }): void;
}

/**
 * A decorator for methods that return a Promise, an Observable or an async iterable, and whose parameters begin with
 * `A`.
 *
 * @typeParam Given the result of a call while somebody else holds the lock; `never` means that it fails
 */
export interface LockedMethod<A extends unknown[] = unknown[], Given = never> extends Composable {
  <Target, Name = undefined, Descriptor = undefined>(
    target: ValidTarget<Target, Name, Descriptor, Fitting<MethodIn<Descriptor>, A, Given>>,
    name?: Name,
    descriptor?: Descriptor,
  ): void;
}

/** A decorator for methods of one type. */
export interface LockedMethodOf<M extends AnyMethod> extends Composable {
  <Target, Name = undefined, Descriptor = undefined>(
    target: ValidTarget<Target, Name, Descriptor, Same<MethodIn<Descriptor>, M>>,
    name?: Name,
    descriptor?: Descriptor,
  ): void;
}
