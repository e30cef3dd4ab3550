import { assertIsObject } from './arguments.js';
import { invalidOption, LockConfigError } from './lock.errors.js';
import { adviceFor } from './option-advice.js';
import { CONTROL_CHARACTER } from './runtime/quoted.js';

/** Refuses a value. @throws LockConfigError naming option, value and what is allowed */
export type Check = (name: string, value: unknown) => void;

/**
 * One row of a table of options. The interface of the options has the type and the full description; checks, messages
 * and the tables of the documentation follow from the row.
 */
export interface Option<Value> {
  /** The value if the option is not given. Undefined if there is none, or if it follows from other options. */
  readonly default?: Value | undefined;
  /** How the documentation shows the default. @default the value in `default` */
  readonly shownDefault?: string;
  /** Whether it must be given; its check then says so. @default false */
  readonly isRequired?: boolean;
  /** Undefined if the reader of the option checks it. */
  readonly check?: Check | undefined;
  /** Its names in other libraries, in lower case. A name close to ours needs no entry. */
  readonly otherNames?: readonly string[];
  /** What it does, as Markdown. Undefined if the option is in no table of the documentation. */
  readonly text?: string;
}

/** A row for each option; the compiler requires all of them. */
export type OptionTable<Options> = {
  readonly [Name in keyof Options]-?: Option<Options[Name]>;
};

/** Some of the options; undefined counts as not given. */
export type SomeOf<Options> = {
  readonly [Name in keyof Options]?: Options[Name] | undefined;
};

/** How messages name the options, and what they say about unknown ones. */
export interface OptionMessages {
  /** Whose options they are, in what is said about unknown ones. @default not said */
  readonly owner?: string;
  /** Precedes the name of an option: `fence.` @default '' */
  readonly prefix?: string;
  /** Known names that belong elsewhere, each with the place. @default {} */
  readonly elsewhere?: Readonly<Record<string, string>>;
  /** What to say to something else than options, after the names of options. @default nothing */
  readonly remedy?: (options: unknown) => string;
}

/**
 * Checks the values, and refuses unknown options, whose author expects an effect.
 *
 * @throws LockConfigError naming option, value and what is allowed, or the option that was probably meant; also if
 * `options` is not an object
 */
export function assertOptions<Options>(
  table: OptionTable<Options>,
  options: SomeOf<Options>,
  { owner, prefix = '', elsewhere = {}, remedy }: OptionMessages = {},
): void {
  assertIsObject(options, Object.keys(table), remedy);
  for (const name in options) {
    if (Object.hasOwn(table, name)) continue;
    const shown = `'${prefix}${name}'${owner === undefined ? '' : ` of ${owner}`}`;
    throw new LockConfigError(`Unknown option ${shown}: ${adviceFor(name, table, elsewhere)}`);
  }
  for (const name in table) {
    const { check, isRequired } = table[name];
    const value = options[name];
    if (value !== undefined || isRequired) check?.(`${prefix}${name}`, value);
  }
}

/** The options, with defaults for those not given; unknown names are left out. */
export function withDefaults<Options>(
  table: OptionTable<Options>,
  options: SomeOf<Options>,
): Required<Options> {
  const names = Object.keys(table) as (keyof Options)[];
  const entries = names.map((name) => [name, options[name] ?? table[name].default]);
  return Object.fromEntries(entries) as Required<Options>;
}

/** @param rule what is allowed: `true or false` */
export function must(rule: string, allows: (value: unknown) => boolean): Check {
  return (name, value) => {
    if (!allows(value)) throw invalidOption(name, value, `must be ${rule}`);
  };
}

/** @param infinity what `Infinity` means, if it is allowed */
export function wholeNumber(min: number, unit: string, infinity?: string): Check {
  const unlimited = infinity === undefined ? '' : `; Infinity = ${infinity}`;
  const rule = `a whole number of at least ${min} (${unit}${unlimited})`;
  const check = must(
    rule,
    (value) =>
      (Number.isSafeInteger(value) || (infinity !== undefined && value === Infinity)) &&
      (value as number) >= min,
  );
  return (name, value) => {
    const remedy = remedyForNumber(value);
    if (remedy !== undefined) throw invalidOption(name, value, `must be ${rule}${remedy}`);
    check(name, value);
  };
}

/** What to do about text, and about what `Number` makes of a variable that is not set; undefined for another value. */
function remedyForNumber(value: unknown): string | undefined {
  if (Number.isNaN(value)) return '; is the variable set that has it?';
  if (typeof value !== 'string') return undefined;
  const isNumber = value.trim() !== '' && Number.isFinite(Number(value));
  return `, and not a string; ${isNumber ? 'convert it with Number(…)' : 'write the number, without a unit'}`;
}

/** A duration; Infinity is allowed. */
export const milliseconds: Check = must(
  'a number of milliseconds, 0 or more',
  (value) => typeof value === 'number' && value >= 0,
);

export const callable: Check = must('a function', (value) => typeof value === 'function');

/** The text of a variable is true even if it is 'false'. */
export const flag: Check = (name, value) => {
  if (typeof value === 'boolean') return;
  const remedy =
    typeof value === 'string' ? `, and not a string; compare it: value === 'true'` : '';
  throw invalidOption(name, value, `must be true or false${remedy}`);
};

/** @param mostCharacters the greatest length */
export function shortText(mostCharacters: number): Check {
  return must(
    `a string of 1 to ${mostCharacters} characters without line breaks or control characters`,
    (value) =>
      typeof value === 'string' &&
      value !== '' &&
      value.length <= mostCharacters &&
      !CONTROL_CHARACTER.test(value),
  );
}
