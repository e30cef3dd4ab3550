import { LockConfigError, LockKeyError } from '../lock.errors.js';
import { closest } from '../option-advice.js';
import { quoted } from '../runtime/quoted.js';
import { describeValue, shownValue } from '../runtime/shown-value.js';
import { encodeKeyValue } from './key-value.js';
import {
  adjacent,
  missingProblem,
  precedingProblem,
  sizeProblem,
  textProblem,
} from './lock-key.js';
import { parsePlaceholder, type Placeholder, placeholderFor } from './placeholder.js';
import { asTemplate, markedProblem, positionProblem } from './reserved-text.js';

/**
 * A key with placeholders: `stock:<id>`, `stock:<order.sku>`, `stock:<0.sku>`. With a list, as in
 * `stock:<order.items[].sku>`, it stands for one key per element. It is parsed once and rendered for each call.
 */
export class KeyTemplate {
  readonly text: string;
  readonly placeholders: readonly Placeholder[];
  /** The texts around the placeholders, one more than there are placeholders. */
  readonly #literals: readonly string[];
  readonly #shown: string;
  /** Which placeholder has the list; -1 if there is none. */
  readonly #list: number;

  /**
   * @param owner the owner's name in messages, for example `StockService.take`
   * @param roots what the placeholders of a remedy begin with. @default anything
   * @throws LockConfigError if it is not a valid template; the message shows the correct form
   */
  constructor(text: string, owner?: string, roots?: readonly string[]) {
    this.text = text;
    this.#shown = `${shownValue(text)}${owner === undefined ? '' : ` of ${owner}`}`;
    if (typeof text !== 'string') this.#misuse("it must be a string, such as 'stock:<id>'");
    const pieces = text.split(/<([^<>]*)>/u);
    this.#literals = pieces.filter((_, index) => index % 2 === 0);
    this.placeholders = pieces
      .filter((_, index) => index % 2 === 1)
      .map((body) => this.#placeholder(body));
    this.#list = this.placeholders.findIndex(({ each }) => each !== undefined);
    this.#checkLiterals(roots);
  }

  /**
   * Refuses `stock:#id` if `id` is a value of the call: the author took another language's placeholder.
   *
   * @param isKnown whether the call has a value that begins so, or the placeholder to write
   * @throws LockConfigError unless the template also has the placeholder itself
   */
  assertFilledIn(isKnown: (placeholder: Placeholder) => string | boolean): void {
    const used = new Set(this.placeholders.map(({ root }) => root));
    const problem =
      markedProblem(
        this.text,
        (placeholder) => !used.has(placeholder.root) && isKnown(placeholder),
      ) ?? (used.size === 0 ? positionProblem(this.text) : undefined);
    if (problem !== undefined) this.#misuse(problem);
  }

  /** @throws LockKeyError if the root of a placeholder is not among the values */
  assertGiven(values: object): void {
    for (const { text, root } of this.placeholders) {
      if (!(root in values)) this.#refuse(missing(text, 'the object of values', values, root));
    }
  }

  /**
   * The keys of one call: one, or one for each element of the list.
   *
   * @param valueOf returns the value of a placeholder's root, by its name or position
   * @throws LockKeyError if a value is missing or cannot be in a key, or if the list is empty
   */
  render(valueOf: (root: string) => unknown): string[] {
    const values = this.placeholders.map((placeholder) => {
      const { text, root, path } = placeholder;
      return this.#read(text, root, valueOf(root), path);
    });
    if (this.#list === -1) return [this.#fill(values, 0)];
    return this.#elements(values[this.#list]).map((_, element) => this.#fill(values, element));
  }

  /** The elements of the list, including holes. */
  #elements(list: unknown): readonly unknown[] {
    const { text } = this.placeholders[this.#list] as Placeholder;
    if (!Array.isArray(list)) {
      this.#refuse(
        `${text} needs a list, but it is ${describeValue(list)}; pass an array, or leave out []`,
      );
    }
    if (list.length === 0) {
      this.#refuse(`${text} has no elements: nothing would be locked; return before the call`);
    }
    return Array.from(list as readonly unknown[]);
  }

  #fill(values: readonly unknown[], element: number): string {
    let key = this.#literals[0] ?? '';
    this.placeholders.forEach(({ text, each }, index) => {
      const value =
        each === undefined
          ? values[index]
          : this.#read(
              text,
              `${text.slice(1, text.indexOf('[]'))}[${element}]`,
              (values[index] as unknown[])[element],
              each,
            );
      if (each === undefined && Array.isArray(value)) {
        const path = text.slice(1, -1);
        this.#refuse(
          `${text} is an array; write <${path}[]> to lock all its elements, or <${path}.0> for the first one`,
        );
      }
      key += encodeKeyValue(value, (problem) => this.#refuse(`${text} ${problem}`));
      key += this.#literals[index + 1] ?? '';
    });
    const problem = sizeProblem(key);
    return problem === undefined ? key : this.#refuse(problem);
  }

  #placeholder(body: string): Placeholder {
    const placeholder = parsePlaceholder(body);
    if (placeholder !== undefined) return placeholder;
    const meant = placeholderFor(body);
    return this.#misuse(
      meant === undefined
        ? `<${body}> must be a parameter's name or position and a path, such as <id>, <order.sku>, <0.sku> or, with one list in it, <order.items[].sku>; use a function for anything else`
        : `<${body}> is not a path; write ${meant.text}`,
    );
  }

  #checkLiterals(roots?: readonly string[]): void {
    this.#literals.forEach((literal, index) => {
      if (/[<>]/.test(literal)) {
        this.#misuse(`'<' and '>' are only allowed around a placeholder, such as <id>`);
      }
      const isBeforeValue = index < this.placeholders.length;
      const problem =
        textProblem(literal, () => `write ${quoted(asTemplate(this.text, roots))}`) ??
        (isBeforeValue ? precedingProblem(literal) : undefined);
      if (problem !== undefined) this.#misuse(problem);
      const [before, after] = [this.placeholders[index - 1], this.placeholders[index]];
      if (literal === '' && before !== undefined && after !== undefined) {
        this.#misuse(adjacent(`${before.text} and ${after.text}`));
      }
    });
    const unfilled = missingProblem(this.text, 'check where it comes from');
    if (unfilled !== undefined) this.#misuse(unfilled);
    const separator = separatorOfKeys(this.#literals);
    if (separator !== undefined) {
      const keys = this.text.split(separator).map((key) => quoted(key));
      this.#misuse(`it is one key, and looks like several; write [${keys.join(', ')}]`);
    }
    const lists = new Set(
      this.placeholders.flatMap(({ root, path, each }) => (each ? [root, ...path].join('.') : [])),
    );
    if (lists.size > 1) {
      this.#misuse(
        `it iterates ${[...lists].map(quoted).join(' and ')}; only one list is allowed, use a function for more`,
      );
    }
    const [route] = /^:[A-Za-z_]\w*(?:\.\w+)*/.exec(this.text) ?? [];
    if (route !== undefined) {
      this.#misuse(
        `${quoted(route)} is not filled in, so that all calls would share one lock; write ${asTemplate(`{${route.slice(1)}}`, roots)}`,
      );
    }
    const problem = this.placeholders.length === 0 ? sizeProblem(this.text) : undefined;
    if (problem !== undefined) this.#misuse(problem);
  }

  #read(text: string, from: string, start: unknown, path: readonly string[]): unknown {
    let value = start;
    let walked = from;
    for (const property of path) {
      if ((typeof value !== 'object' && typeof value !== 'function') || value === null) {
        this.#refuse(
          `${text} cannot be read, ${walked} is ${describeValue(value)}; pass an object that has '${property}'`,
        );
      }
      const parent: object = value;
      let isMissing = false;
      try {
        value = (parent as Record<string, unknown>)[property];
        isMissing = value === undefined && !(property in parent);
      } catch (cause) {
        this.#refuse(`reading ${walked}.${property} failed: ${String(cause)}`, { cause });
      }
      if (isMissing) this.#refuse(missing(text, walked, parent, property));
      walked += `.${property}`;
    }
    return value;
  }

  #misuse(problem: string): never {
    throw new LockConfigError(`Invalid key template ${this.#shown}: ${problem}`);
  }

  #refuse(problem: string, options?: ErrorOptions): never {
    throw new LockKeyError(
      `Cannot build a lock key from ${this.#shown}: ${problem}`,
      undefined,
      options,
    );
  }
}

/** What stands between texts that begin alike, as in `account:<from>,account:<to>`: they were meant as a list. */
function separatorOfKeys([first = '', ...others]: readonly string[]): string | undefined {
  return others
    .filter((text) => text.endsWith(first))
    .map((text) => text.slice(0, -first.length))
    .find((text) => /^\s*[,;|&+\s]\s*$/.test(text));
}

/** How many names are compared with a missing one, and how long they may be: the sender of a request chooses them. */
const COMPARED = 20;
const COMPARED_CHARACTERS = 40;

/** @param walked the part of the placeholder that was read, which is `parent` */
function missing(text: string, walked: string, parent: object, property: string): string {
  const path = text.slice(1, -1);
  if (Array.isArray(parent)) {
    const rest = path.slice(walked.length);
    const remedy = path.includes('[]')
      ? 'use one of its elements'
      : `write <${walked}[]${rest}> to lock all its elements, or <${walked}.0${rest}> for the first one`;
    return `${text} is undefined: ${walked} is an array; ${remedy}`;
  }
  const names = Object.keys(parent)
    .slice(0, COMPARED)
    .filter(({ length }) => length <= COMPARED_CHARACTERS);
  const meant = closest(property, names);
  const remedy =
    meant === undefined
      ? 'pass an object that has it, or correct the name'
      : `did you mean ${quoted(meant)}?`;
  return `${text} is undefined: ${walked} has no ${quoted(property)}; ${remedy}`;
}
