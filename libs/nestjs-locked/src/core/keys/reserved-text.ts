import { quoted } from '../runtime/quoted.js';
import { type Placeholder, placeholderFor } from './placeholder.js';

/** What the text of a key may not have; one test for all of it, because every call makes it. */
const RESERVED = /[<{}]|\/:[A-Za-z_]|\[object \w+\]|%[sd](?![^-:/_.])(?<![^-:/_.]..)/;

/** What stands for a value in template literals, other languages, templates and routes; each names it in a group. */
const PLACEHOLDERS =
  /\$\{([^{}]*)\}|#?\{+([\p{ID_Continue}$#.[\] ]+)\}+|<([^<>]+)>|(?<=\/):([A-Za-z_]\w*)|(?<![^-:/_.])%[sd](?![^-:/_.])/gu;

const NAME = String.raw`([\p{ID_Start}$_][\p{ID_Continue}$]*(?:\.[\p{ID_Continue}$]+)*)`;

/**
 * `#id`, `$id`, `@id`, `%id`, `::id`, `[id]` and `(id)`, with or without a path, outside of placeholders, and a last
 * part that is the name of an id, as in `stock:id`. In a key, each may also be plain text.
 */
const MARKED = new RegExp(
  String.raw`(?<!<[^<>]*|[\p{ID_Continue}$])(?:(?:[#$@%]|(?<=^|:):)${NAME}(?![\p{ID_Continue}$-])|\[${NAME}\]|\(${NAME}\)|(?<=:)(id|uuid|[\p{ID_Continue}$]+(?:Id|_id))$)`,
  'gu',
);

/** The first argument in SQL, Spring and JavaScript, as a whole part of the text. */
const POSITION = /(?<=^|[:/_-])(?:\$\d|\?\d?|:\d|#[ap]\d|#?arg(?:ument)?s\[\d\])(?=$|[:/_-])/;

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
    return `${notFilledIn(placeholder)}${also}; ${remedy()}`;
  }
  const [object] = STRINGIFIED.exec(text) ?? [];
  if (object !== undefined) {
    return `${quoted(object)} is an object that was made a string, so that all calls would share one lock; put one of its properties in: lockKey\`order:\${order.id}\``;
  }
  const problem = text.includes('<')
    ? "'<' is reserved for placeholders; leave it out"
    : `${BRACES}; leave them out, as well as the keyPrefix`;
  return `${problem}, or put the value in with lockKey, which escapes it`;
}

/**
 * The problem of a template in which a known name is written as in another language, such as `stock:#id`.
 *
 * @param isKnown whether the call has a value of this name, which the template does not use yet; or its placeholder
 * @returns undefined if there is none
 */
export function markedProblem(
  text: string,
  isKnown: (placeholder: Placeholder) => string | boolean,
): string | undefined {
  let found: string | undefined;
  const template = text.replace(MARKED, (marked, ...names: (string | undefined)[]) => {
    const placeholder = placeholderFor(names.slice(0, 4).join(''));
    const known = placeholder !== undefined && isKnown(placeholder);
    if (known === false) return marked;
    found ??= marked;
    return known === true ? placeholder.text : known;
  });
  return (
    found &&
    `${notFilledIn(found)}; write ${quoted(template)}, or another text if no value is meant`
  );
}

/** The problem of a template without placeholders that has the position of an argument, such as `stock:$1`. */
export function positionProblem(text: string): string | undefined {
  const [found] = POSITION.exec(text) ?? [];
  return (
    found &&
    `${notFilledIn(found)}; write a placeholder such as <id> or <0>, or another text if no value is meant`
  );
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

function notFilledIn(placeholder: string): string {
  return `${quoted(placeholder)} is not filled in, so that all calls would share one lock`;
}

/** The expression for a value; a position, or an element of a list, has none outside of the template. */
function pathOf(name: string): string {
  const placeholder = placeholderFor(name);
  if (placeholder === undefined || placeholder.each !== undefined) return 'value';
  const { root, path } = placeholder;
  return /^\d/.test(root) ? 'value' : [root, ...path].join('.');
}
