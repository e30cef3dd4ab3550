import { isPromiseLike } from '../arguments.js';
import { describeValue } from '../runtime/shown-value.js';

/** The values that a key can contain. Numbers must be finite, and strings not empty. */
export type KeyValue = string | number | bigint | boolean;

/** The longest key, in bytes of UTF-8. */
export const MAX_KEY_BYTES = 512;

/**
 * The separator (`:`), hash tag braces (`{}`), the brackets of placeholders (`<>`), characters that would break a log
 * line, and the escape character itself: with all of these encoded, `<a>:<b>` is the same key only for the same pair of
 * values, and a value is never mistaken for a placeholder. Nor is the text behind it, as in `<path>:render`, for which
 * a final `/` is encoded as well: `/:render` would be a route parameter. Of `undefined`, `null` and `NaN` at the
 * end, which are a missing value in a key that was put together by hand, the first letter is encoded, and so is a sole
 * `*`, which would look like a pattern.
 */
const ENCODED = /[%:{}<>\s\p{Cc}]|\/$|^\*$|(?<=^|[-_.=/])(?:u(?=ndefined$)|n(?=ull$)|N(?=aN$))/gu;

/** Most values: a number, a UUID, a name with a digit at its end. Nothing of it is encoded. */
const PLAIN = /^[\w-]*\d$/;

/** All lone surrogates would become the same bytes in Redis. */
export const LONE_SURROGATE = /\p{Cs}/u;

const ALLOWED = 'pass a string, a finite number, a bigint or a boolean';

/**
 * The value as encoded in a key: special characters are percent-encoded.
 *
 * @param refuse throws; receives the problem and the way out, worded to follow the value's name
 */
export function encodeKeyValue(value: unknown, refuse: (problem: string) => never): string {
  switch (typeof value) {
    case 'string':
      return encodeText(value, refuse);
    case 'number':
      if (!Number.isFinite(value)) refuse(`is ${value}; ${ALLOWED}`);
      return encodeText(String(value), refuse);
    case 'bigint':
    case 'boolean':
      return encodeText(String(value), refuse);
    case 'undefined':
    case 'object':
    case 'function':
    case 'symbol':
      return refuse(`is ${describeValue(value)}; ${wayOut(value)}`);
  }
}

function encodeText(text: string, refuse: (problem: string) => never): string {
  if (text === '') refuse("is ''; pass a string that is not empty");
  if (text.length > MAX_KEY_BYTES) {
    refuse(
      `has ${text.length} characters; a key has ${MAX_KEY_BYTES} bytes at most, use a shorter value or a hash`,
    );
  }
  if (PLAIN.test(text)) return text;
  if (LONE_SURROGATE.test(text))
    refuse('is not well-formed text (half a surrogate pair); pass its toWellFormed()');
  return text.replace(ENCODED, (character) => percentEncoded(character));
}

/** Also letters, which `encodeURIComponent` leaves as they are. */
function percentEncoded(character: string): string {
  const encoded = encodeURIComponent(character);
  return encoded === character ? `%${character.charCodeAt(0).toString(16)}` : encoded;
}

function wayOut(value: unknown): string {
  if (value instanceof Date) return 'convert it to a string first, for example with toISOString()';
  if (Array.isArray(value)) return 'use one of its elements';
  if (typeof value !== 'object' || value === null) return ALLOWED;
  if (isPromiseLike(value)) return 'await it first';
  // Identifiers such as the ObjectId of MongoDB, and buffers
  const { toString } = value as { toString?: unknown };
  if (toString === undefined || toString === Object.prototype.toString) {
    return 'use one of its properties';
  }
  const convert = Buffer.isBuffer(value) ? "toString('hex')" : 'toString()';
  return `convert it to a string first, for example with ${convert}`;
}
