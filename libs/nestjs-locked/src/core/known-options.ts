import { LockConfigError } from './lock.errors.js';
import { shownValue } from './runtime/shown-value.js';

/** What other libraries call our options, in lower case. A name that is close to one of ours needs no entry. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  ttl: 'leaseMs',
  duration: 'leaseMs',
  expire: 'leaseMs',
  expiry: 'leaseMs',
  locktimeout: 'leaseMs',
  leasetime: 'leaseMs',
  timeout: 'waitMs',
  waittimeout: 'waitMs',
  waittime: 'waitMs',
  acquiretimeout: 'waitMs',
  retrycount: 'waitMs',
  maxattempts: 'waitMs',
  autoextend: 'renew',
  autorenew: 'renew',
  maxholdtime: 'maxHoldMs',
  onlockfailed: 'onBusy',
  redis: 'connection',
  client: 'connection',
  url: 'connection',
  host: 'connection',
  prefix: 'keyPrefix',
  namespace: 'keyPrefix',
  global: 'isGlobal',
  servicename: 'name',
};

/** The names that there are, such as those of a table of options. */
export type KnownOptions = Readonly<Record<string, unknown>>;

/** Edits that still count as a slip of the finger. */
const MOST_EDITS = 2;

/** Whether it can have options by name. */
export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** @throws LockConfigError if it cannot have options */
export function assertIsObject(options: unknown): asserts options is object {
  if (isObject(options)) return;
  throw new LockConfigError(`Invalid options: ${shownValue(options)} must be an object`);
}

/** @param usage how the call that was given it is written @throws LockConfigError if it cannot be called */
export function assertIsFunction(work: unknown, usage: string): void {
  if (typeof work === 'function') return;
  throw new LockConfigError(
    `Invalid argument: ${shownValue(work)} must be a function; write ${usage}`,
  );
}

/** @param usage how the call that was given it is written @throws LockConfigError if it is a primitive value */
export function assertIsReference(value: unknown, usage: string): void {
  if (Object(value) === value) return;
  throw new LockConfigError(
    `Invalid argument: ${shownValue(value)} must be an object; write ${usage}`,
  );
}

/**
 * Refuses an option that nothing would read: its author believes that it does something.
 *
 * @param elsewhere known names that belong somewhere else, with where that is
 * @throws LockConfigError that names the option and, if it can be guessed, the one that was meant; also if they are no
 * object
 */
export function assertKnownOptions(
  options: unknown,
  known: KnownOptions,
  elsewhere: Readonly<Record<string, string>> = {},
): void {
  assertIsObject(options);
  for (const name in options) {
    if (Object.hasOwn(known, name)) continue;
    throw new LockConfigError(`Unknown option '${name}': ${adviceFor(name, known, elsewhere)}`);
  }
}

function adviceFor(
  name: string,
  known: KnownOptions,
  elsewhere: Readonly<Record<string, string>>,
): string {
  if (Object.hasOwn(elsewhere, name)) return elsewhere[name] as string;
  const names = Object.keys(known);
  const meant = OTHER_NAMES[name.toLowerCase()] ?? closest(name, names);
  if (meant !== undefined && Object.hasOwn(known, meant)) return `did you mean '${meant}'?`;
  return `there are ${names.join(', ')}`;
}

function closest(name: string, names: readonly string[]): string | undefined {
  const distances = names.map((other) => editDistance(name.toLowerCase(), other.toLowerCase()));
  const least = Math.min(...distances);
  return least <= MOST_EDITS ? names[distances.indexOf(least)] : undefined;
}

/** How many letters must be added, left out or replaced (Levenshtein 1966). */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (const [index, letter] of [...from].entries()) {
    const next = [index + 1];
    for (let column = 1; column <= to.length; column++) {
      const replaced = (row[column - 1] as number) + (letter === to[column - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[column] as number) + 1, (next[column - 1] as number) + 1));
    }
    row = next;
  }
  return row[to.length] as number;
}
