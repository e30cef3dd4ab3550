/** Stands in for `node:module`. The stand-ins read what may be replaced when they are called. */
export function syncBuiltinESMExports(): void {}

/** Only `renewFrom: 'worker'` needs it; no history has it. */
export function createRequire(): never {
  throw new Error('nothing is required in a browser');
}
