import { assertKnownOptions } from './known-options.js';
import { invalidOption } from './lock.errors.js';
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
  /** Undefined: whoever reads the option checks it. */
  readonly check?: Check | undefined;
  /** What it does, as Markdown. */
  readonly text: string;
}

/** A row for each option: the compiler asks for all of them. */
export type OptionTable<Options> = {
  readonly [Name in keyof Options]-?: Option<Options[Name]>;
};

/** @throws LockConfigError naming option, value and what is allowed */
export function assertOptions<Options>(
  table: OptionTable<Options>,
  options: Partial<Options>,
  prefix = '',
): void {
  for (const name in table) {
    const value = options[name];
    if (value !== undefined) table[name].check?.(`${prefix}${name}`, value);
  }
}

/** How options are checked that stand in no table of the documentation; undefined where whoever reads one checks it. */
export type OptionChecks<Options> = {
  readonly [Name in keyof Options]-?: Check | undefined;
};

/** @throws LockConfigError for what is no object, a name that is not among them, and a wrong value */
export function assertChecked<Options>(checks: OptionChecks<Options>, options: Options): void {
  assertKnownOptions(options, checks);
  for (const name in checks) {
    const value = options[name];
    if (value !== undefined) checks[name]?.(name, value);
  }
}

/** The options, with the defaults of those that were not given; what is in no row is left out. */
export function withDefaults<Options>(
  table: OptionTable<Options>,
  options: Partial<Options>,
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
