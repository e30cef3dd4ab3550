import { isObject } from '../core/arguments.js';
import { LockConfigError, type LockErrorCode } from '../core/lock.errors.js';
import { assertOptions, type OptionTable, withDefaults } from '../core/option.js';
import { adviceFor, adviceForEach } from '../core/option-advice.js';
import { shownValue } from '../core/runtime/shown-value.js';
import { DEFAULT_RETRY_AFTER_SECONDS } from './requests/lock-answer.js';

/** The options of `LockExceptionFilter`. */
export interface LockExceptionFilterOptions {
  /**
   * The HTTP status of each error, from 400 to 599. One below 500 also keeps a mistake out of the log.
   * @default LOCK_NOT_ACQUIRED: 423 (Locked), LOCK_QUEUE_FULL, LOCK_DEADLOCK, LOCK_STORE_FAILED and LOCK_ABORTED:
   * 503, every other: 500
   */
  readonly statuses?: Partial<Readonly<Record<LockErrorCode, number>>>;
  /**
   * After how many seconds a client should retry if the lock was not free, too many wait for it, calls waited for
   * each other, Redis did not answer, or the application is shutting down. A whole number. @default 1
   */
  readonly retryAfterSeconds?: number;
}

const refuse = (problem: string): never => {
  throw new LockConfigError(`Invalid option of LockExceptionFilter: ${problem}`);
};

/** The class of each error, and other names under which its status is looked for. */
const CODES: Readonly<Record<LockErrorCode, { readonly otherNames: readonly string[] }>> = {
  LOCK_NOT_ACQUIRED: { otherNames: ['locknotacquirederror', 'lock_busy', 'busy'] },
  LOCK_QUEUE_FULL: { otherNames: ['lockqueuefullerror', 'queue_full'] },
  LOCK_DEADLOCK: { otherNames: ['lockdeadlockerror', 'deadlock'] },
  LOCK_STORE_FAILED: { otherNames: ['lockstoreerror', 'lock_unavailable', 'lock_store_error'] },
  LOCK_ABORTED: { otherNames: ['lockabortederror'] },
  LOCK_NOT_HELD: { otherNames: ['locknothelderror'] },
  LOCK_NOT_ADOPTED: { otherNames: ['locknotadoptederror'] },
  LOCK_LOST: { otherNames: ['locklosterror'] },
  LOCK_FENCED: { otherNames: ['lockfencederror'] },
  LOCK_COMMIT_UNKNOWN: { otherNames: ['lockcommitunknownerror'] },
  LOCK_IN_TRANSACTION: { otherNames: ['lockintransactionerror'] },
  LOCK_KEY_INVALID: { otherNames: ['lockkeyerror', 'lock_invalid_key'] },
  LOCK_CONFIG_INVALID: { otherNames: ['lockconfigerror', 'lock_invalid_config'] },
};

function codeNamed(name: unknown): LockErrorCode | undefined {
  const codes = Object.keys(CODES) as LockErrorCode[];
  const other = String(name).toLowerCase();
  return codes.find((code) => code === name || CODES[code].otherNames.includes(other));
}

const FILTER_OPTIONS: OptionTable<LockExceptionFilterOptions> = {
  statuses: {
    otherNames: ['statuscode', 'statuscodes', 'httpstatus', 'httpstatuses', 'code', 'codes'],
    check(name, statuses) {
      if (!isObject(statuses)) {
        refuse(
          `${name} is ${shownValue(statuses)}; use an object with a status for a code, such as { LOCK_NOT_ACQUIRED: 409 }`,
        );
      }
      for (const [code, status] of Object.entries(statuses as Record<string, unknown>)) {
        if (!Object.hasOwn(CODES, code)) {
          refuse(
            `${name} has '${code}', which is not the code of a lock error; ${adviceOnCode(code, status)}`,
          );
        }
        assertStatus(`${name}.${code}`, status);
      }
    },
  },
  retryAfterSeconds: {
    default: DEFAULT_RETRY_AFTER_SECONDS,
    otherNames: ['retry', 'retryafter', 'retry-after', 'retryafterms', 'retryms'],
    check(name, seconds) {
      if (Number.isSafeInteger(seconds) && (seconds as number) >= 0) return;
      refuse(`${name} is ${shownValue(seconds)}; use a whole number of seconds, 0 or more`);
    },
  },
};

/** The two may have changed places. */
function adviceOnCode(code: string, status: unknown): string {
  const meant = codeNamed(status);
  return meant === undefined ? adviceFor(code, CODES, {}) : `write { ${meant}: ${code} }`;
}

function assertStatus(name: string, status: unknown): void {
  const isStatus = (value: number): boolean =>
    Number.isInteger(value) && value >= 400 && value <= 599;
  if (typeof status === 'number' && isStatus(status)) return;
  const advice =
    typeof status === 'string' && isStatus(Number(status))
      ? `the number ${status}`
      : 'an HTTP status from 400 to 599, because the request has failed';
  refuse(`${name} is ${shownValue(status)}; use ${advice}`);
}

/** What the filter itself is not asked for, by the name under which it is looked for. */
const NOT_OF_THE_FILTER: Readonly<Record<string, string>> = adviceForEach(
  ['message', 'messages', 'body', 'response', 'format', 'transform'],
  'to send something else, write a filter of your own with @Catch(LockError)',
);

/** @throws LockConfigError naming option, value and what is allowed */
export function checkedFilterOptions(
  options: LockExceptionFilterOptions,
): Required<LockExceptionFilterOptions> {
  if (!isObject(options)) {
    refuse(`${shownValue(options)} must be an object, such as { retryAfterSeconds: 5 }`);
  }
  assertOptions(FILTER_OPTIONS, options, {
    owner: 'LockExceptionFilter',
    elsewhere: { ...NOT_OF_THE_FILTER, ...statusesIn(options) },
  });
  return withDefaults(FILTER_OPTIONS, options);
}

/** Advice on statuses that were given as options. */
function statusesIn(options: object): Record<string, string> {
  const advice: Record<string, string> = {};
  for (const [name, status] of Object.entries(options)) {
    const code = codeNamed(name);
    if (code !== undefined) advice[name] = `write { statuses: { ${code}: ${shownValue(status)} } }`;
  }
  return advice;
}
