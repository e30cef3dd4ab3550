import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { ApplicationConfig, MetadataScanner, ModulesContainer } from '@nestjs/core';
import { LockConfigError } from '../../core/lock.errors.js';
import { LockExceptionFilter } from '../lock-exception.filter.js';
import { isLockInterceptor, madeWithNew } from '../requests/lock-interceptor-class.js';

type Kind = 'interceptor' | 'filter' | 'guard' | 'pipe';

/** Where Nest takes what it calls an enhancer; the metadata is what the decorator writes. */
interface Place {
  readonly kind: Kind;
  readonly decorator: string;
  readonly metadata: string;
  readonly token: string;
  readonly method: string;
  globals(application: ApplicationConfig): readonly unknown[];
}

const INTERCEPTORS: Place = {
  kind: 'interceptor',
  decorator: '@UseInterceptors',
  metadata: '__interceptors__',
  token: 'APP_INTERCEPTOR',
  method: 'useGlobalInterceptors',
  globals: (application) => application.getGlobalInterceptors(),
};
const FILTERS: Place = {
  kind: 'filter',
  decorator: '@UseFilters',
  metadata: '__exceptionFilters__',
  token: 'APP_FILTER',
  method: 'useGlobalFilters',
  globals: (application) => application.getGlobalFilters(),
};
const PLACES: readonly Place[] = [
  INTERCEPTORS,
  FILTERS,
  {
    kind: 'guard',
    decorator: '@UseGuards',
    metadata: '__guards__',
    token: 'APP_GUARD',
    method: 'useGlobalGuards',
    globals: (application) => application.getGlobalGuards(),
  },
  {
    kind: 'pipe',
    decorator: '@UsePipes',
    metadata: '__pipes__',
    token: 'APP_PIPE',
    method: 'useGlobalPipes',
    globals: (application) => application.getGlobalPipes(),
  },
];

/** What of this library Nest was given, and where it belongs. */
interface Enhancer {
  readonly name: string;
  readonly isClass: boolean;
  readonly belongs: Place;
}

/**
 * Refuses `LockInterceptor` and `LockExceptionFilter` where Nest never runs them: in a decorator or under a token for
 * something else, or as a class where Nest expects an instance, as `app.useGlobalInterceptors` does.
 */
@Injectable()
export class EnhancersCheck implements OnModuleInit {
  readonly #application: ApplicationConfig;

  /** All modules are known here, and no route was made yet, at which Nest would fail. @throws LockConfigError */
  constructor(
    @Inject(ApplicationConfig) application: ApplicationConfig,
    @Inject(ModulesContainer) modules: ModulesContainer,
  ) {
    this.#application = application;
    for (const { controllers, providers } of modules.values()) {
      for (const { token, metatype } of [...controllers.values(), ...providers.values()]) {
        assertMayBeProvidedAs(String(token), metatype);
        if (typeof metatype === 'function') assertDecorators(metatype);
      }
    }
  }

  /** The application may have added some since. @throws LockConfigError */
  onModuleInit(): void {
    for (const place of PLACES) {
      for (const value of place.globals(this.#application)) assertMayBeGlobal(value, place);
    }
  }
}

function assertMayBeGlobal(value: unknown, place: Place): void {
  const enhancer = enhancerOf(value);
  if (enhancer === undefined) return;
  const { name, isClass, belongs } = enhancer;
  if (belongs === place && !isClass) return;
  const problem =
    belongs === place ? 'it is a class, of which Nest makes no instance there' : neverRun(enhancer);
  throw new LockConfigError(
    `Cannot use ${name} in app.${place.method}: ${problem}; write ${asProvider(enhancer)} in the providers of a module`,
  );
}

/** @param token a text that begins with the constant of Nest, for its global enhancers */
function assertMayBeProvidedAs(token: string, value: unknown): void {
  const enhancer = enhancerOf(value);
  if (enhancer === undefined) return; // as nearly all providers
  const place = PLACES.find((it) => new RegExp(`^${it.token}\\b`).test(token));
  if (place === undefined || enhancer.belongs === place) return;
  throw new LockConfigError(
    `Cannot use ${enhancer.name} as ${place.token}: ${neverRun(enhancer)}; write ${asProvider(enhancer)}`,
  );
}

/** Those of a class and of its methods. */
function assertDecorators(metatype: object & { readonly name: string; prototype?: unknown }): void {
  const prototype = metatype.prototype as Record<string, object> | undefined;
  const methods = prototype === undefined ? [] : new MetadataScanner().getAllMethodNames(prototype);
  const targets = [
    { on: metatype.name, target: metatype as object },
    ...methods.map((name) => ({ on: `${metatype.name}.${name}`, target: prototype?.[name] })),
  ];
  for (const { on, target } of targets) {
    for (const place of PLACES) {
      const named: unknown = target && Reflect.getMetadata(place.metadata, target);
      for (const value of Array.isArray(named) ? (named as unknown[]) : []) {
        if (isLockInterceptor((Object(value) as object).constructor)) throw madeWithNew(on);
        const enhancer = enhancerOf(value);
        if (enhancer === undefined || enhancer.belongs === place) continue;
        throw new LockConfigError(
          `Cannot use ${enhancer.name} in ${place.decorator} of ${on}: ${neverRun(enhancer)}; write ${enhancer.belongs.decorator}(${enhancer.name})`,
        );
      }
    }
  }
}

function enhancerOf(value: unknown): Enhancer | undefined {
  if (isLockInterceptor(value)) return { name: value.name, isClass: true, belongs: INTERCEPTORS };
  const isClass = value === LockExceptionFilter;
  if (!isClass && !(value instanceof LockExceptionFilter)) return undefined;
  return { name: LockExceptionFilter.name, isClass, belongs: FILTERS };
}

function neverRun({ belongs }: Enhancer): string {
  const article = belongs === INTERCEPTORS ? 'an' : 'a';
  return `it is ${article} ${belongs.kind}, which Nest would never run there`;
}

function asProvider({ name, belongs }: Enhancer): string {
  return `{ provide: ${belongs.token}, useClass: ${name} }`;
}
