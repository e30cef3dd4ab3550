import { Inject, Injectable, Logger, type OnModuleInit } from '@nestjs/common';
import { DiscoveryService, ModuleRef } from '@nestjs/core';
import { LockConfigError } from '../../core/lock.errors.js';
import { LOG_CONTEXT } from '../../core/log-context.js';
import { isLockServiceToken, lockServiceProperty, lockServiceToken } from './lock-service.token.js';
import {
  type LockedMethodInfo,
  lockedMethodsOf,
  unlockedKeyParamsOf,
  unlockedOverridesOf,
  wrappedMethodsOf,
} from './locked-methods.registry.js';

/**
 * The instances to which each service was given here. If the next application has the same instance, such as a constant
 * that several tests provide, it replaces the service of the previous one.
 */
const givenHere = new WeakMap<object, WeakSet<object>>();

type InstanceWrapper = ReturnType<DiscoveryService['getProviders']>[number];

/**
 * Examines the application once, at its start. Nest injects the lock service into the instances that it creates itself;
 * those of `useFactory` and `useValue` get theirs here. Warns of overrides and `@KeyParam`s without a lock, and of
 * methods with another decorator around the lock.
 *
 * Instances that a factory creates per request do not exist yet; their first locked call fails.
 */
@Injectable()
export class LockedInstances implements OnModuleInit {
  readonly #logger = new Logger(LOG_CONTEXT);
  readonly #discovery: DiscoveryService;
  readonly #modules: ModuleRef;

  /** @throws LockConfigError if two modules provide the same lock service */
  constructor(
    @Inject(DiscoveryService) discovery: DiscoveryService,
    @Inject(ModuleRef) modules: ModuleRef,
  ) {
    // All modules are known here, and nothing is connected yet.
    assertOneEach(discovery.getProviders());
    this.#discovery = discovery;
    this.#modules = modules;
  }

  /** @throws LockConfigError if an instance needs a lock service that no module provides */
  onModuleInit(): void {
    const wrappers = [...this.#discovery.getProviders(), ...this.#discovery.getControllers()];
    // Every lock module has an instance of this class; the first one does the work for all.
    if (wrappers.find(({ token }) => token === LockedInstances)?.instance !== this) return;

    const warnings = new Set<string>();
    for (const wrapper of wrappers) {
      for (const instance of instancesOf(wrapper)) {
        const found = warningsOf(instance);
        if (found === undefined) continue;
        if (wrapper.isDependencyTreeStatic()) this.#provide(instance);
        for (const warning of found) warnings.add(warning);
      }
    }
    for (const warning of warnings) this.#logger.warn(warning);
  }

  #provide(instance: object): void {
    for (const method of lockedMethodsOf(instance)) {
      const property = lockServiceProperty(method.service);
      const present: unknown = Reflect.get(instance, property);
      if (present === undefined || present === null || isGivenHere(present, instance)) {
        const service = this.#serviceFor(method);
        // Undefined would mean that there is no service yet, as before the start.
        Reflect.set(instance, property, service ?? null);
        rememberGiven(service, instance);
      }
    }
  }

  /** The provided value may be a mock, even null. */
  #serviceFor({ className, name, service }: LockedMethodInfo): unknown {
    try {
      return this.#modules.get<unknown>(lockServiceToken(service), { strict: false });
    } catch (cause) {
      const options = service === undefined ? '' : `{ name: '${service}' }`;
      throw new LockConfigError(
        `Cannot lock ${className}.${String(name)}: no module provides its lock service; import RedisLockModule.forRoot(${options}) in the root module`,
        undefined,
        { cause },
      );
    }
  }
}

function isGivenHere(service: unknown, instance: object): boolean {
  return givenHere.get(service as object)?.has(instance) === true;
}

function rememberGiven(service: unknown, instance: object): void {
  if (Object(service) !== service) return; // a mock; the next application always replaces null
  const instances = givenHere.get(service as object) ?? new WeakSet();
  givenHere.set(service as object, instances.add(instance));
}

/**
 * Two services with one name would exclude each other like two processes, and which one is injected would be arbitrary.
 */
function assertOneEach(wrappers: readonly InstanceWrapper[]): void {
  const seen = new Set<unknown>();
  for (const { token } of wrappers) {
    if (!isLockServiceToken(token)) continue;
    if (seen.has(token)) {
      throw new LockConfigError(
        `Two lock modules provide ${token.description?.split(', from ')[0]}: import RedisLockModule.forRoot() once, in the root module, or give each a name of its own: forRoot({ name: 'billing', … }); in a test, LockTestingModule replaces it, and overrideLocks is for an application that imports it`,
      );
    }
    seen.add(token);
  }
}

function overrideWarnings(instance: object): string[] {
  return unlockedOverridesOf(instance).map(({ className, locked }) => {
    const method = String(locked.name);
    return `${className}.${method} overrides the locked ${locked.className}.${method} and takes no lock; put @Locked on it, or call super.${method}`;
  });
}

function orderWarnings(instance: object): string[] {
  return wrappedMethodsOf(instance).map(
    ({ className, name }) =>
      `${className}.${String(name)}: a decorator above @Locked acts before the lock is taken; if it opens a transaction, put @Locked above it`,
  );
}

function keyParamWarnings(instance: object): string[] {
  return unlockedKeyParamsOf(instance).map(
    ({ className, name }) =>
      `${className}.${name} has a @KeyParam and takes no lock; put @Locked on it, or leave @KeyParam out`,
  );
}

function instancesOf(wrapper: InstanceWrapper): object[] {
  const instances: unknown[] = wrapper.isTransient
    ? wrapper.getStaticTransientInstances().map((host) => host?.instance as unknown)
    : [wrapper.instance];
  return instances.filter((instance) => typeof instance === 'object' && instance !== null);
}

/** Undefined for a proxy that cannot be inspected: a warning is not worth a failed start. */
function warningsOf(instance: object): readonly string[] | undefined {
  try {
    return [
      ...overrideWarnings(instance),
      ...orderWarnings(instance),
      ...keyParamWarnings(instance),
    ];
  } catch {
    return undefined;
  }
}
