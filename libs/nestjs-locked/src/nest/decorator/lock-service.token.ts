import { Inject } from '@nestjs/common';
import { LockConfigError } from '../../core/lock.errors.js';
import { shownValue } from '../../core/runtime/shown-value.js';

const TOKEN = 'nestjs-locked/LockService';

/**
 * The injection token of a lock service: the same symbol in every copy of this package. Nest prints the description of
 * a symbol that it cannot provide, so the description says what to do.
 *
 * @param name the module's `name`; omit it for the module without one
 * @throws LockConfigError if the name is an empty string
 */
export function lockServiceToken(name?: string): symbol {
  assertServiceName(name);
  const which = name === undefined ? '' : `(${name})`;
  return Symbol.for(`${TOKEN}${which}, from ${moduleToImport(name)}`);
}

/** Whether this is the token of a lock service of any name. */
export function isLockServiceToken(token: unknown): token is symbol {
  return typeof token === 'symbol' && token.description?.startsWith(TOKEN) === true;
}

/** The hidden property that has the lock service of an instance with `@Locked` methods. */
export function lockServiceProperty(name?: string): symbol {
  assertServiceName(name);
  return Symbol.for(moduleToImport(name));
}

function moduleToImport(name: string | undefined): string {
  const options = name === undefined ? '' : `{ name: '${name}' }`;
  return `RedisLockModule.forRoot(${options}) (import it in the root module, ${name === undefined ? 'with options and no name, or write the name of another as service in @Locked' : 'with this name'}; if isGlobal is false, in this module, too; in tests LockTestingModule.forRoot(${options}))`;
}

/**
 * Injects a lock service into a constructor parameter or a property. Without a name, it is the same as injecting
 * `LockService` by its class.
 *
 * @example constructor(@InjectLockService('billing') private readonly locks: LockService) {}
 */
export function InjectLockService(name?: string): ParameterDecorator & PropertyDecorator {
  return Inject(lockServiceToken(name));
}

function assertServiceName(name: unknown): void {
  if (name === undefined || (typeof name === 'string' && name !== '')) return;
  throw new LockConfigError(
    `Invalid lock service name: ${shownValue(name)} is not the name given to RedisLockModule.forRoot; leave it out for the module without a name, as in @InjectLockService()`,
  );
}
