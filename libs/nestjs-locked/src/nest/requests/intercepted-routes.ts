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

interface Class {
  readonly name: string;
  readonly prototype: Record<string, object> | undefined;
}

/** The routes that name this interceptor, on the method or on its class. Global interceptors are not seen. */
export function routesUnder(interceptor: Type, modules: ModulesContainer): Route[] {
  const routes: Route[] = [];
  const scanner = new MetadataScanner();
  for (const module of modules.values()) {
    for (const wrapper of [...module.controllers.values(), ...module.providers.values()]) {
      const metatype = wrapper.metatype as Class | null; // the factory in case of `useFactory`
      const prototype = metatype?.prototype;
      if (metatype === null || prototype === undefined) continue;
      for (const name of scanner.getAllMethodNames(prototype)) {
        const method = prototype[name] as object;
        if (![metatype, method].some((target) => isNamedOn(target, interceptor))) continue;
        const kinds = MARKS.flatMap(([mark, kind]) =>
          Reflect.hasMetadata(mark, method) ? [kind] : [],
        );
        const callSite = `${metatype.name}.${name}`;
        routes.push(...[...new Set(kinds)].map((kind) => ({ callSite, kind })));
      }
    }
  }
  return routes;
}

function isNamedOn(target: object, interceptor: Type): boolean {
  const interceptors: unknown = Reflect.getMetadata(INTERCEPTORS, target);
  return Array.isArray(interceptors) && interceptors.includes(interceptor);
}
