import type { Type } from '@nestjs/common';
import { MetadataScanner, type ModulesContainer } from '@nestjs/core';
import type { RequestKind } from './request-roots.js';

/** A method that answers requests of one kind. */
export interface Route {
  /** `StockController.take` */
  readonly callSite: string;
  readonly kind: RequestKind;
}

/**
 * Metadata keys of Nest and its packages for interceptors and for the requests that a method answers. Copied, because
 * an application need not have the packages for GraphQL, microservices and gateways.
 */
const INTERCEPTORS = '__interceptors__';
const MARKS: readonly (readonly [metadata: string, kind: RequestKind])[] = [
  ['path', 'http'],
  ['graphql:resolver_type', 'graphql'],
  ['graphql:resolve_property', 'graphql'],
  ['microservices:pattern', 'rpc'],
  ['websockets:message_mapping', 'ws'],
];

/**
 * Metadata of an ordinary provider and its methods, or what `@nestjs/schedule` and `@nestjs/bullmq` call, without
 * interceptors. Anything else may mark what another package calls like a route.
 */
const ORDINARY =
  /^(?:design:|self:|optional:|bullmq:|SCHEDULE|scope:options$|__(?:injectable|interceptors|guards|pipes|exceptionFilters)__$)/;

interface Class {
  readonly name: string;
  readonly prototype: Record<string, object> | undefined;
}

export interface InterceptedMethods {
  readonly routes: readonly Route[];
  /** Methods that are no routes, for which Nest never runs an interceptor: `StockService.take`. */
  readonly neverIntercepted: readonly string[];
}

/** What names this interceptor, on the method or on its class. Global interceptors are not seen. */
export function methodsUnder(interceptor: Type, modules: ModulesContainer): InterceptedMethods {
  const routes: Route[] = [];
  const neverIntercepted: string[] = [];
  const scanner = new MetadataScanner();
  for (const { controllers, providers } of modules.values()) {
    for (const wrapper of [...controllers.values(), ...providers.values()]) {
      const metatype = wrapper.metatype as Class | null; // the factory in case of `useFactory`
      const prototype = metatype?.prototype;
      if (metatype === null || prototype === undefined) continue;
      const all = scanner.getAllMethodNames(prototype).map((name) => ({
        callSite: `${metatype.name}.${name}`,
        method: prototype[name] as object,
      }));
      const methods = all.filter(({ method }) =>
        [metatype, method].some((it) => isNamedOn(it, interceptor)),
      );
      for (const { callSite, method } of methods) {
        const kinds = MARKS.flatMap(([mark, kind]) =>
          Reflect.hasMetadata(mark, method) ? [kind] : [],
        );
        routes.push(...[...new Set(kinds)].map((kind) => ({ callSite, kind })));
      }
      const isOrdinaryProvider = [metatype, ...methods.map(({ method }) => method)].every(
        isOrdinary,
      );
      const isController = controllers.has(wrapper.token as Type);
      for (const { callSite, method } of methods) {
        const isHelper = isController && isOrdinary(method) && isNamedOn(method, interceptor);
        if (isOrdinaryProvider || isHelper) neverIntercepted.push(callSite);
      }
    }
  }
  return { routes, neverIntercepted };
}

function isOrdinary(target: object): boolean {
  const keys = Reflect.getMetadataKeys(target) as unknown[];
  return keys.every((key) => typeof key === 'string' && ORDINARY.test(key));
}

function isNamedOn(target: object, interceptor: Type): boolean {
  const named: unknown = Reflect.getMetadata(INTERCEPTORS, target);
  return Array.isArray(named) && named.includes(interceptor);
}
