import { isObject } from '../../core/arguments.js';
import { LockConfigError } from '../../core/lock.errors.js';
import type { OnBusy, WithLockOptions } from '../../core/lock.options.js';
import type { OptionTable } from '../../core/option.js';
import { checkedOnce } from '../../core/resolved.options.js';
import { quoted } from '../../core/runtime/quoted.js';
import { describeValue, shownValue } from '../../core/runtime/shown-value.js';
import { RESULT_KINDS, type ResultKind } from '../result/result-kind.js';
import { lockServiceToken } from './lock-service.token.js';

/** The options of `@Locked`: those of a call, except the signal, which only a single call can have. */
export interface LockedOptions<Busy extends OnBusy = OnBusy> extends Omit<
  WithLockOptions<Busy>,
  'signal'
> {
  /** The `name` of the lock module to use. @default the module without a name */
  readonly service?: string;
  /**
   * What the method returns, if that is not visible while the class is being defined: an Observable or async iterable
   * without a type annotation, or code from a compiler that emits no types. The caller gets the same kind.
   *
   * With 'iterable', the caller gets an async generator: the method runs when the first value is requested, so the
   * other members of a cursor are lost. A Promise of a cursor keeps them.
   * @default 'iterable' for async generators, 'observable' for methods declared to return one, otherwise 'promise'
   */
  readonly returns?: ResultKind;
}

/** The options of `@Locked` in addition to those of every call; their check is in `checkedLockedOptions`. */
export const DECORATOR_OPTIONS: OptionTable<Pick<LockedOptions, 'service' | 'returns'>> = {
  service: {
    shownDefault: 'none',
    text: 'Only for `@Locked` and `LockInterceptor`: the `name` of the module to use',
  },
  returns: {
    shownDefault: 'the declared type',
    text: "Only for `@Locked`: `'observable'` or `'iterable'`, if the return type is not declared",
  },
};

/** The checked options of a decorator, split into its own and those of each call. */
export interface CheckedLockedOptions {
  readonly service: string | undefined;
  readonly returns: ResultKind | undefined;
  readonly ofCalls: WithLockOptions;
}

/**
 * @param where names the place of the options in messages: `@Locked on StockService.take`
 * @throws LockConfigError that names the option, its value and what is allowed
 */
export function checkedLockedOptions(options: LockedOptions, where: string): CheckedLockedOptions {
  const refuse = (problem: string): never => {
    throw new LockConfigError(`Invalid option of ${where}: ${problem}`);
  };
  if (!isObject(options)) {
    refuse(
      `the second argument is ${shownValue(options)}, and must be an object, such as { waitMs: 0 }`,
    );
  }
  if ((options as WithLockOptions).signal !== undefined) {
    refuse('a signal would be shared by all calls; use withLock for a wait that can be cancelled');
  }
  const { service, returns, ...ofCalls } = options;
  if (returns !== undefined && !RESULT_KINDS.includes(returns)) {
    const shown = typeof returns === 'string' ? quoted(returns) : describeValue(returns);
    refuse(`returns is ${shown}; use one of ${RESULT_KINDS.map(quoted).join(', ')}`);
  }
  lockServiceToken(service);
  try {
    return { service, returns, ofCalls: checkedOnce(ofCalls) };
  } catch (error) {
    throw new LockConfigError(`${where}: ${(error as Error).message}`);
  }
}
