import type { TransactionBounds } from './database-session.js';

/** The settings of PostgreSQL that limit a transaction, in the order in which they are read and armed. */
export const LIMITS = [
  ['idleMs', 'idle_in_transaction_session_timeout'],
  ['statementMs', 'statement_timeout'],
  ['lockMs', 'lock_timeout'],
  ['totalMs', 'transaction_timeout'],
] as const satisfies readonly (readonly [keyof TransactionBounds, string])[];

type LimitName = (typeof LIMITS)[number][1];

/** An expression for the limits that a session has: the version of its server, then each setting as it is shown. */
export const SHOWN_LIMITS = `concat_ws(' ', current_setting('server_version_num'), ${LIMITS.map(
  ([, name]) => `current_setting('${name}', true)`,
).join(', ')})`;

/** The first version that has `transaction_timeout`. */
const HAS_TOTAL = 170_000;
/** How often sessions may have other limits than the one before them, until nothing is expected of them any more. */
const MAX_SURPRISES = 16;

/** One setting, and what it is set to: text, as PostgreSQL takes it. */
export interface Setting {
  readonly name: LimitName;
  readonly value: string;
}

/** What a statement sets, if the session shows the limits that are expected of it. */
export interface Arming {
  /** These limits, as `SHOWN_LIMITS` has them. */
  readonly shown: string;
  readonly settings: readonly Setting[];
  /** Set if the statement itself may wait less for a row than those after it. */
  readonly wait: { readonly ms: number; readonly afterwards: number } | undefined;
}

/** The limits of a session, as `SHOWN_LIMITS` has them, and what has to be set if ours are to be in force as well. */
export class ExpectedLimits {
  readonly shown: string;
  readonly #present: ReadonlyMap<LimitName, number>;

  private constructor(shown: string, present: ReadonlyMap<LimitName, number>) {
    this.shown = shown;
    this.#present = present;
  }

  /** @returns undefined if the text is not of the known form: another kind of server may have made it */
  static parse(shown: string): ExpectedLimits | undefined {
    const [version, ...values] = shown.split(' ');
    const names = LIMITS.map(([, name]) => name).slice(0, values.length);
    const present = new Map<LimitName, number>();
    for (const [i, name] of names.entries()) {
      if (name === 'transaction_timeout' && !(Number(version) >= HAS_TOTAL)) continue;
      const ms = millisecondsOf(values[i] ?? '');
      if (ms === undefined) return undefined;
      present.set(name, ms);
    }
    return present.size < LIMITS.length - 1 ? undefined : new ExpectedLimits(shown, present);
  }

  /** @param waitMs how long the statement that arms them may wait for a row; Infinity = like those after it */
  armingFor(bounds: TransactionBounds, waitMs: number): Arming {
    const settings = this.#settingsFor(bounds);
    const given = settings.find(({ name }) => name === 'lock_timeout')?.value;
    const afterwards = Number(given ?? this.#present.get('lock_timeout') ?? 0);
    const isShorter = waitMs < (afterwards === 0 ? Infinity : afterwards);
    const wait = isShorter ? { ms: Math.floor(waitMs), afterwards } : undefined;
    return { shown: this.shown, settings, wait };
  }

  /** What to set, and in which order. A limit of the session that is stricter than ours stays as it is. */
  #settingsFor(bounds: TransactionBounds): readonly Setting[] {
    return LIMITS.flatMap(([bound, name]): readonly Setting[] => {
      const ms = Math.floor(bounds[bound] ?? 0);
      const present = this.#present.get(name);
      if (ms === 0 || present === undefined || (present > 0 && present <= ms)) return [];
      const setting = { name, value: String(ms) };
      // A time-out of the transaction that runs already is only replaced after it was switched off.
      const isRunning = name === 'transaction_timeout' && present > 0;
      return isRunning ? [{ name, value: '0' }, setting] : [setting];
    });
  }
}

/**
 * What the last session of a database had as its own limits. The next one is expected to have the same, so that the
 * time-outs can be armed by a statement that compares one text and sets plain values. The general statement works with
 * any limits, but planning it takes PostgreSQL longer than the claim. An expectation is checked by the statement that
 * relies on it, so it may be wrong.
 */
export class SessionLimits {
  #expected: ExpectedLimits | undefined;
  #surprises = 0;

  get expected(): ExpectedLimits | undefined {
    return this.#expected;
  }

  /** @param shown what a session had, as `SHOWN_LIMITS` */
  learn(shown: unknown): void {
    if (shown === this.#expected?.shown) return;
    if (this.#expected !== undefined) this.#surprises++;
    this.#expected =
      typeof shown === 'string' && this.#surprises < MAX_SURPRISES
        ? ExpectedLimits.parse(shown)
        : undefined;
  }
}

const UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** PostgreSQL shows its settings with the largest unit that fits: `500ms`, `10s`, `1min`. 0 means no limit. */
function millisecondsOf(value: string): number | undefined {
  if (value === '0') return 0;
  const [, digits, unit = ''] = /^(\d+)(ms|s|min|h|d)$/.exec(value) ?? [];
  return digits === undefined ? undefined : Number(digits) * (UNITS[unit] as number);
}
