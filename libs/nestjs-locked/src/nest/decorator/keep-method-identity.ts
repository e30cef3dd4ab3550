import type { Method } from './decorated-method.js';

import 'reflect-metadata';

/**
 * Gives the wrapper everything by which others know the method: `name`, `length`, the properties that were put on it,
 * and all its metadata. So a route, a schedule or a guard is found whatever the order of the decorators.
 */
export function keepMethodIdentity(original: Method, wrapper: Method): void {
  for (const property of Reflect.ownKeys(original)) {
    // A generator has a prototype of its own, which the wrapper must not share.
    if (property === 'prototype') continue;
    const descriptor = Reflect.getOwnPropertyDescriptor(original, property);
    if (descriptor !== undefined) Reflect.defineProperty(wrapper, property, descriptor);
  }
  for (const key of Reflect.getOwnMetadataKeys(original) as unknown[]) {
    Reflect.defineMetadata(key, Reflect.getOwnMetadata(key, original), wrapper);
  }
}
