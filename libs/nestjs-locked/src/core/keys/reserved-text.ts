import { quoted } from '../runtime/quoted.js';
import { placeholderFor } from './placeholder.js';

/** What the text of a key may not have; one test for all of it, because every call makes it. */
const RESERVED = /[<{}]|\/:[A-Za-z_]|\[object \w+\]/;

/** What stands for a value in template literals, other languages, templates and routes; each names it in a group. */
const PLACEHOLDERS =
  /\$\{([^{}]*)\}|#?\{+([\p{ID_Continue}$#.[\] ]+)\}+|<([^<>]+)>|(?<=\/):([A-Za-z_]\w*)/gu;

const BRACES = 'braces are reserved for the hash tag of Redis Cluster';

const STRINGIFIED = /\[object \w+\]/;

/**
 * The problem of text that would be the same in every call, although it seems to stand for a value, or that is reserved
 * for another reason. Values are escaped, so text of theirs is none of this.
 *
 * @param remedy what to write instead of a placeholder
 * @returns undefined if it has none
 */
export function reservedProblem(text: string, remedy: () => string): string | undefined {
  if (!RESERVED.test(text)) return undefined;
  const [placeholder] = text.match(PLACEHOLDERS) ?? [];
  if (placeholder !== undefined) {
    const also = /^#?\{/.test(placeholder) ? `, and ${BRACES}` : '';
    return `${quoted(placeholder)} is not filled in, so that all calls would share one lock${also}; ${remedy()}`;
  }
  const [object] = STRINGIFIED.exec(text) ?? [];
  if (object !== undefined) {
    return `${quoted(object)} is an object that was made a string, so that all calls would share one lock; put one of its properties in: lockKey\`order:\${order.id}\``;
  }
  const problem = text.includes('<') ? "'<' is reserved for placeholders" : BRACES;
  return `${problem}; leave it out, or put the value in with lockKey, which escapes it`;
}

/**
 * The same text for `@Locked`: `stock:<id>`.
 * @param roots what a placeholder may begin with; the first precedes one that begins with none. @default anything
 */
export function asTemplate(text: string, roots?: readonly string[]): string {
  return replacePlaceholders(text, (name) => {
    const { text: placeholder, root } = placeholderFor(name) ?? { text: '<id>', root: 'id' };
    if (roots === undefined || roots.includes(root)) return placeholder;
    return `<${roots[0]}.${placeholder.slice(1)}`;
  });
}

/** The same text for `lockKey`, as code. */
export function asTag(text: string): string {
  return `lockKey\`${replacePlaceholders(text, (name) => `\${${pathOf(name)}}`)}\``;
}

/** The same text for `locks.keyFor`, as code. */
export function asKeyFor(text: string): string {
  const roots = new Set<string>();
  const template = replacePlaceholders(text, (name) => {
    roots.add(pathOf(name).split('.')[0] as string);
    return `<${pathOf(name)}>`;
  });
  return `locks.keyFor('${template}', { ${[...roots].join(', ')} })`;
}

function replacePlaceholders(text: string, write: (name: string) => string): string {
  return text.replace(PLACEHOLDERS, (_, ...groups: (string | undefined)[]) =>
    write(groups.slice(0, 4).join('').replace(/^#/, '')),
  );
}

/** The expression for a value; a position, or an element of a list, has none outside of the template. */
function pathOf(name: string): string {
  const placeholder = placeholderFor(name);
  if (placeholder === undefined || placeholder.each !== undefined) return 'value';
  const { root, path } = placeholder;
  return /^\d/.test(root) ? 'value' : [root, ...path].join('.');
}
