import { quoted } from './quoted.js';

/** Names a value without showing its content, which may be secret. It never throws. */
export function describeValue(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return 'an array';
  if (typeof value !== 'object') return `a ${typeof value}`;
  const { constructor } = value;
  const name = typeof constructor === 'function' ? constructor.name : '';
  return name === '' || name === 'Object' ? 'an object' : `an object (${name})`;
}

/**
 * A wrong value as it is shown in a message: the value itself if it is a primitive one, otherwise what it is. An object
 * is never converted to a string: that throws if it has no prototype, and so no `toString`.
 */
export function shownValue(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return quoted(value);
    case 'object':
    case 'function':
      return describeValue(value);
    case 'number':
    case 'bigint':
    case 'boolean':
    case 'symbol':
    case 'undefined':
      return String(value);
  }
}
