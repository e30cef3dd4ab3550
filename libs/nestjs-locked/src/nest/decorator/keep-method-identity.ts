import type { Method } from './decorated-method.js';

import 'reflect-metadata';

/**
 * Copies everything that identifies the method to its wrapper: `name`, `length`, its other properties, and all its
 * metadata. Routes, schedules and guards are then found in any order of the decorators.
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
