import { describeValue, encodeKeyValue } from './key-value.js';
import { adjacent, keyProblem, textProblem } from './lock-key.js';
import { LockConfigError, LockKeyError } from './lock.errors.js';
import { quoted } from './quoted.js';

/** One `<order.sku>` of a template. */
export interface Placeholder {
  /** As it was written, with its brackets. */
  readonly text: string;
  /** What it begins with: a name, or a position such as `0`. */
  readonly root: string;
  /** The properties that lead from there to the value. */
  readonly path: readonly string[];
}

const ROOT = /^(?:\d+|[\p{ID_Start}$_][\p{ID_Continue}$]*)$/u;
const PROPERTY = /^[^\s[\]]+$/u;

/**
 * A key with places to fill in: `stock:<id>`, `stock:<order.sku>`, `stock:<0.sku>`. Parsed once, rendered per call.
 */
export class KeyTemplate {
  readonly text: string;
  readonly placeholders: readonly Placeholder[];
  /** The text around the placeholders: one more than there are of them. */
  readonly #literals: readonly string[];
  readonly #shown: string;

  /**
   * @param owner named in messages, for example `StockService.take`
   * @throws LockConfigError if it is not a template, says how it should be written
   */
  constructor(text: string, owner?: string) {
    this.text = text;
    this.#shown = `${typeof text === 'string' ? quoted(text) : describeValue(text)}${owner === undefined ? '' : ` of ${owner}`}`;
    if (typeof text !== 'string') this.#misuse('it must be one string');
    const pieces = text.split(/<([^<>]*)>/u);
    this.#literals = pieces.filter((_, index) => index % 2 === 0);
    this.placeholders = pieces
      .filter((_, index) => index % 2 === 1)
      .map((body) => this.#placeholder(body));
    this.#checkLiterals();
  }

  /**
   * The key for one call.
   *
   * @param valueOf gives the value that a placeholder begins with, by its name or position
   * @throws LockKeyError if a value is missing or cannot be in a key
   */
  render(valueOf: (root: string) => unknown): string {
    let key = this.#literals[0] ?? '';
    this.placeholders.forEach((placeholder, index) => {
      key += encodeKeyValue(this.#read(placeholder, valueOf), (problem) =>
        this.#refuse(`${placeholder.text} ${problem}`),
      );
      key += this.#literals[index + 1] ?? '';
    });
    const problem = keyProblem(key);
    return problem === undefined ? key : this.#refuse(problem);
  }

  #placeholder(body: string): Placeholder {
    const text = `<${body}>`;
    if (/[[\]]/.test(body)) {
      this.#misuse(
        `${text} has brackets, but a template gives one key; name one element (<items.0.sku>) or use a function`,
      );
    }
    const [root = '', ...path] = body.split('.');
    if (!ROOT.test(root) || !path.every((property) => PROPERTY.test(property))) {
      this.#misuse(
        `${text} must be a parameter's name or position and a path, such as <id>, <order.sku> or <0.sku>`,
      );
    }
    return { text, root, path };
  }

  #checkLiterals(): void {
    this.#literals.forEach((literal, index) => {
      if (/[<>]/.test(literal)) {
        this.#misuse(`'<' and '>' only stand around a placeholder, such as <id>`);
      }
      const problem = textProblem(literal);
      if (problem !== undefined) this.#misuse(problem);
      const [before, after] = [this.placeholders[index - 1], this.placeholders[index]];
      if (literal === '' && before !== undefined && after !== undefined) {
        this.#misuse(adjacent(`${before.text} and ${after.text}`));
      }
    });
    const problem = this.placeholders.length === 0 ? keyProblem(this.text) : undefined;
    if (problem !== undefined) this.#misuse(problem);
  }

  #read(placeholder: Placeholder, valueOf: (root: string) => unknown): unknown {
    let value = valueOf(placeholder.root);
    let walked = placeholder.root;
    for (const property of placeholder.path) {
      if ((typeof value !== 'object' && typeof value !== 'function') || value === null) {
        this.#refuse(
          `${placeholder.text} cannot be read, ${walked} is ${describeValue(value)}; pass an object with a '${property}'`,
        );
      }
      try {
        value = (value as Record<string, unknown>)[property];
      } catch (cause) {
        this.#refuse(`reading ${walked}.${property} failed: ${String(cause)}`, { cause });
      }
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
