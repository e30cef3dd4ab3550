import { quoted } from './quoted.js';

/** Describes a value without its content, which may be secret. Never throws. */
export function describeValue(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return 'an array';
  if (typeof value !== 'object') return `a ${typeof value}`;
  const { constructor } = value;
  const name = typeof constructor === 'function' ? constructor.name : '';
  return name === '' || name === 'Object' ? 'an object' : `an object (${name})`;
}

/**
 * An invalid value for a message: a primitive itself, otherwise a description. Objects are never converted to strings,
 * which throws if they have no prototype and so no `toString`.
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
