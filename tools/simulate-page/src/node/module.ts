/** Stands in for `node:module`. The stand-ins read what may be replaced when they are called. */
export function syncBuiltinESMExports(): void {}
