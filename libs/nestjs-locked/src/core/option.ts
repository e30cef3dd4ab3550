import { assertIsObject } from './arguments.js';
import { invalidOption, LockConfigError } from './lock.errors.js';
import { adviceFor } from './option-advice.js';
import { CONTROL_CHARACTER } from './runtime/quoted.js';

/** Refuses a value. @throws LockConfigError naming option, value and what is allowed */
export type Check = (name: string, value: unknown) => void;

/**
 * One row of a table of options. The type of its value, and what it means in detail, stand in the interface that has
 * it; everything else follows from the row: what is checked, what messages say, and the tables of the documentation.
 */
export interface Option<Value> {
  /** What holds where it is not given. Undefined if there is no such value, or if it follows from other options. */
  readonly default?: Value | undefined;
  /** How the documentation says that. @default the value in `default` */
  readonly shownDefault?: string;
  /** Whether it must be given; its check then says so. @default false */
  readonly isRequired?: boolean;
  /** Undefined: whoever reads the option checks it. */
  readonly check?: Check | undefined;
  /** What other libraries call it, in lower case. A name that is close to ours needs no entry. */
  readonly otherNames?: readonly string[];
  /** What it does, as Markdown. Undefined if no table of the documentation has the option. */
  readonly text?: string;
}

/** A row for each option: the compiler asks for all of them. */
export type OptionTable<Options> = {
  readonly [Name in keyof Options]-?: Option<Options[Name]>;
};

/** Some of the options. One that is undefined counts as not given. */
export type SomeOf<Options> = {
  readonly [Name in keyof Options]?: Options[Name] | undefined;
};

/** How messages name the options, and what they say of unknown ones. */
export interface OptionMessages {
  /** Stands before the name of an option whose value is wrong: `fence.` @default '' */
  readonly prefix?: string;
  /** Known names that belong somewhere else, with where that is. @default {} */
  readonly elsewhere?: Readonly<Record<string, string>>;
}

/**
 * Checks the values, and refuses an option that nothing would read: its author believes that it does something.
 *
 * @throws LockConfigError naming option, value and what is allowed, or the option that was probably meant; also if they
 * are no object
 */
export function assertOptions<Options>(
  table: OptionTable<Options>,
  options: SomeOf<Options>,
  { prefix = '', elsewhere = {} }: OptionMessages = {},
): void {
  assertIsObject(options);
  for (const name in options) {
    if (Object.hasOwn(table, name)) continue;
    throw new LockConfigError(`Unknown option '${name}': ${adviceFor(name, table, elsewhere)}`);
  }
  for (const name in table) {
    const { check, isRequired } = table[name];
    const value = options[name];
    if (value !== undefined || isRequired) check?.(`${prefix}${name}`, value);
  }
}

/** The options, with the defaults of those that were not given; what is in no row is left out. */
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
  return must(
    `a whole number of at least ${min} (${unit}${unlimited})`,
    (value) =>
      (Number.isSafeInteger(value) || (infinity !== undefined && value === Infinity)) &&
      (value as number) >= min,
  );
}

/** A length of time; Infinity is one. */
export const milliseconds: Check = must(
  'a number of milliseconds from 0',
  (value) => typeof value === 'number' && value >= 0,
);

export const callable: Check = must('a function', (value) => typeof value === 'function');

export const flag: Check = must('true or false', (value) => typeof value === 'boolean');

/** @param mostCharacters how long it may be */
export function shortText(mostCharacters: number): Check {
  return must(
    `a text of 1 to ${mostCharacters} characters without line breaks and control characters`,
    (value) =>
      typeof value === 'string' &&
      value !== '' &&
      value.length <= mostCharacters &&
      !CONTROL_CHARACTER.test(value),
  );
}
