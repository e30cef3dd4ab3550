import type { GivenWhenBusy, LockKeys, OnBusy } from '../../core/lock.options.js';
import { compileLockedKey } from './compile-locked-key.js';
import { decoratedMethod } from './decorated-method.js';
import { requestLockService } from './hidden-lock-service.js';
import { checkedLockedOptions, type LockedOptions } from './locked.options.js';
import { assertCalled, assertLockedArguments } from './locked-arguments.js';
import { lockMethod } from './locked-method.js';
import type {
  AnyMethod,
  FittingOnBusy,
  LockedMethod,
  LockedMethodOf,
  ValidKey,
  ValidOptions,
} from './locked-method.types.js';
import { registerLockedMethod } from './locked-methods.registry.js';
import { methodKind } from './method-kind.js';

/**
 * Runs one call of the method at a time for each key, across all instances of the application.
 *
 * The key is built from the arguments when the call is made: `<id>` is the parameter of that name, `<order.sku>` a
 * property of it, `<order.items[].sku>` stands for every element of a list, and `<0.sku>` names a parameter by
 * position. Default values of parameters are not seen. Values are escaped like those of `lockKey`. If there are several
 * keys, from one template or a list of templates, the method runs when all of them are held. Instead of a template, a
 * function of the method's arguments may return the key, preferably built with `lockKey`; its parameters are checked
 * against those of the method.
 *
 * The lock lasts until the method's Promise has settled, or its Observable or async iterable has ended. `@Locked` works
 * above and below other decorators. The result of `onBusy` must fit the method's type.
 *
 * @example @Locked('stock:<id>') async take(id: string, quantity: number) {}
 * @example @Locked((id: string) => lockKey`stock:${id}`) async take(id: string, quantity: number) {}
 * @throws LockConfigError while the class is being defined, if the method cannot be locked, the template names a
 * parameter that does not exist, or an option is wrong. A call rejects with LockKeyError if no key can be built from
 * its arguments, with LockNotAcquiredError if the lock was not free in time, with LockInTransactionError inside an open
 * transaction (unless `insideTransaction` says otherwise), and with LockConfigError if the instance has no lock
 * service. The method never runs without the lock
 */
export function Locked<A extends unknown[], const Busy extends OnBusy = 'throw'>(
  key: LockKeys | ((...args: A) => LockKeys),
  options?: LockedOptions<Busy>,
): LockedMethod<A, GivenWhenBusy<Busy>>;
/**
 * The same with the method's type given, so that the parameters of the key function need no annotations.
 *
 * @example @Locked<StockService['take']>((id) => lockKey`stock:${id}`) async take(id: string) {}
 */
export function Locked<M extends AnyMethod>(
  key: LockKeys | ((...args: Parameters<M>) => LockKeys),
  options?: LockedOptions<FittingOnBusy<M>>,
): LockedMethodOf<M>;
/** No call has this form: it ends the compiler's error about a wrong key or options with a sentence. */
export function Locked<Key, Options>(
  key: ValidKey<Key>,
  options?: ValidOptions<Options, LockedOptions>,
): LockedMethod;
export function Locked(...args: unknown[]) {
  assertCalled(args);
  // No arrow function, so that Nest can call it with `new` in the place of an interceptor, and gets the message.
  return function locked(target: object, name: string | symbol, descriptor: PropertyDescriptor) {
    const method = decoratedMethod(target, name, descriptor);
    assertLockedArguments(args, method.className, String(name));
    const [key, options = {}] = args;
    const { service, returns, ofCalls } = checkedLockedOptions(
      options,
      `@Locked on ${method.callSite}`,
    );
    const kind = methodKind(method, returns);
    const template = typeof key === 'function' ? undefined : String(key);
    const wrapper = lockMethod({
      method,
      template,
      keysOf: compileLockedKey(key, method),
      kind,
      service,
      options: ofCalls,
    });
    requestLockService(target, service);
    registerLockedMethod(target, {
      className: method.className,
      name,
      template,
      service,
      kind,
      wrapper,
    });
    descriptor.value = wrapper;
  };
}
