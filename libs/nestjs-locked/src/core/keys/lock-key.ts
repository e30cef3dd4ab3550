import { LockKeyError } from '../lock.errors.js';
import { CONTROL_CHARACTER, quoted } from '../runtime/quoted.js';
import { shownValue } from '../runtime/shown-value.js';
import { encodeKeyValue, type KeyValue, LONE_SURROGATE, MAX_KEY_BYTES } from './key-value.js';
import { asKeyFor, asTag, reservedProblem } from './reserved-text.js';

/** A whole part of a key that was put together by hand, or all that follows its only word: `order-undefined`. */
const MISSING = /(?:^|[:/]|^[A-Za-z]+[-_.=])(undefined|null|NaN)(?=$|[:/])/;

/** An IPv6 prefix may end with two colons. */
const ENDS_EMPTY = /[^:]:$/;

/** `stock:*`; a value that is an asterisk is encoded. */
const PATTERN = /(?:^|:)\*$/;

/** `stock:1,stock:2` */
const LIST = /^([\w-]+:)[^,]*,\s*\1/;

/**
 * Builds a key. Values are escaped, so that none can spill into another part of the key, and obvious mistakes are
 * refused.
 *
 * @example lockKey`stock:${id}` // 'stock:42'; for '4:2' it is 'stock:4%3A2'
 * @throws LockKeyError for undefined, null, '', NaN, objects and arrays, for placeholders, braces and control
 * characters in the text, for two values with nothing between them, and for more than 512 bytes
 */
export function lockKey(texts: TemplateStringsArray, ...values: readonly KeyValue[]): string {
  if (!Array.isArray(texts) || !Array.isArray(texts.raw)) {
    throw new LockKeyError(
      'Cannot build a lock key: lockKey is a template tag; write lockKey`stock:${id}` without parentheses',
    );
  }
  const refuse = (problem: string): never => {
    throw new LockKeyError(
      `Cannot build a lock key from lockKey\`${texts.raw.join('${…}')}\`: ${problem}`,
    );
  };
  let key = '';
  texts.forEach((text, index) => {
    // The text is undefined if it has an invalid escape sequence.
    const problem =
      text === undefined
        ? 'its text has an invalid escape; write a backslash twice'
        : (textProblem(text, () => `write ${asTag(texts.raw.join('${…}'))}`) ??
          (index < values.length ? precedingProblem(text) : undefined));
    if (problem !== undefined) refuse(problem);
    const isBetween = index > 0 && index < texts.length - 1;
    if (isBetween && text === '') refuse(adjacent(`values ${index} and ${index + 1}`));
    key += text;
    if (index < values.length) {
      key += encodeKeyValue(values[index], (it) => refuse(`value ${index + 1} ${it}`));
    }
  });
  const problem = sizeProblem(key);
  return problem === undefined ? key : refuse(problem);
}

/**
 * Checks a literal key.
 *
 * @throws LockKeyError unless it is a string of 1 to 512 bytes without placeholders, braces, line breaks or control
 * characters, no part of it is `undefined`, `null` or `NaN`, and the last one is not empty
 */
export function assertLockKey(key: unknown): asserts key is string {
  if (typeof key !== 'string') throw notText(key, 'a string');
  const problem = keyProblem(key);
  if (problem !== undefined) {
    throw new LockKeyError(`Cannot use ${quoted(key)} as a lock key: ${problem}`, key);
  }
}

/** @param kind what is allowed */
export function notText(key: unknown, kind: string): LockKeyError {
  // A Promise passed as a key must not also end the process by its rejection.
  if (key instanceof Promise) key.catch(() => {});
  const remedy = key instanceof Promise ? 'so await it' : 'for example lockKey`stock:${id}`';
  return new LockKeyError(
    `Cannot use ${shownValue(key)} as a lock key: it must be ${kind}, ${remedy}`,
  );
}

/** @throws LockKeyError unless it is a string that may match a key; converted to one, 5 would match `5` */
export function assertKeyPattern(pattern: unknown): void {
  const refuse = (problem: string): never => {
    throw new LockKeyError(`Cannot list the locks of ${shownValue(pattern)}: ${problem}`);
  };
  if (typeof pattern !== 'string') {
    refuse("the pattern must be a string, such as 'stock:*'; leave it out for all");
  } else if (/[<{}]/.test(pattern)) {
    refuse(
      "no key has '<', '{' or '}'; write keys as the application does, without the keyPrefix and the braces in Redis, and * for a value: 'stock:*'",
    );
  }
}

/** The problem of a key that nobody has built from a template, and the way out; undefined if it is valid. */
export function keyProblem(key: string): string | undefined {
  return (
    sizeProblem(key) ??
    textProblem(key, () => `write ${asTag(key)}, or ${asKeyFor(key)}`) ??
    missingProblem(key, 'check the value before the call, or put it in with lockKey') ??
    (LIST.test(key) ? "it is one key, and looks like several; pass a list: ['a', 'b']" : undefined)
  );
}

/**
 * The problem of a key in which a value is missing, or stands for all others.
 * @param remedy what to do about it
 */
export function missingProblem(key: string, remedy: string): string | undefined {
  if (PATTERN.test(key)) {
    return "a key is no pattern: its '*' stands for no other key, so that this one would exclude none of them; write a word instead, such as stock:all, and lock that in the other calls, too";
  }
  const [, value = ENDS_EMPTY.test(key) ? '' : undefined] = MISSING.exec(key) ?? [];
  if (value === undefined) return undefined;
  return `its part '${value}' is what a missing value becomes as text, so that all calls would share one lock; ${remedy}`;
}

/** The problem of a key whose text and values were checked, and the way out; undefined if it is valid. */
export function sizeProblem(key: string): string | undefined {
  if (key === '') return 'it is empty; a key names what is locked, such as stock:42';
  const bytes = Buffer.byteLength(key);
  if (bytes > MAX_KEY_BYTES) {
    return `it has ${bytes} bytes, ${MAX_KEY_BYTES} are allowed; use a shorter value or a hash of it`;
  }
  return undefined;
}

/**
 * The problem of the text around the values and the way out; undefined if it is valid.
 * @param remedy what to write instead of a placeholder
 */
export function textProblem(text: string, remedy: () => string): string | undefined {
  if (CONTROL_CHARACTER.test(text)) {
    return 'it has a line break or control character; remove it, or put the value in with lockKey, which escapes it';
  }
  if (LONE_SURROGATE.test(text))
    return 'it is not well-formed text (half a surrogate pair); pass its toWellFormed()';
  return reservedProblem(text, remedy);
}

/** The problem of the text before a value, which would be a placeholder with some values. */
export function precedingProblem(text: string): string | undefined {
  if (text.endsWith('/:')) return "'/:' before a value is route syntax; leave the colon out";
  return /[-:/_.]%$/.test(text)
    ? "'%' before a value is the beginning of a placeholder; leave it out"
    : undefined;
}

/** The problem of two values with nothing between them: every other split of the same text has the same key. */
export function adjacent(which: string): string {
  return `nothing stands between ${which}, so that ('a', 'bc') and ('ab', 'c') would be one key; put a colon between them`;
}
