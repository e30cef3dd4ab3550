import type { SourceParameter } from './parameter-names.js';

/** A number that bundlers and compilers append to a name that other code has: `order2`, `order$1`, `order_1`. */
const APPENDED = /^[$_]?[1-9]\d*$/;

/** Whether a bundler may have made this name from the original. */
export function mayBeRenamed(name: string | undefined, original: string): boolean {
  return name?.startsWith(original) === true && APPENDED.test(name.slice(original.length));
}

/**
 * The position of the parameter that has this name in the author's code. Bundlers rename a parameter whose name other
 * code has, so `order` may be `order2` here.
 *
 * @returns undefined if there is none, or if it is not certain which one is meant. A single parameter is certain. Of
 * several, `order2` may be the author's own name, and the template a mistake. If there is an `order22` as well,
 * `order2` may be the author's `order`
 */
export function positionOfName(
  name: string,
  parameters: readonly SourceParameter[],
): number | undefined {
  const position = parameters.findIndex((parameter) => parameter.name === name);
  const hasRenamed = parameters.some((parameter) => mayBeRenamed(parameter.name, name));
  if (position >= 0) return hasRenamed && /\d$/.test(name) ? undefined : position;
  return hasRenamed && parameters.length === 1 ? 0 : undefined;
}
