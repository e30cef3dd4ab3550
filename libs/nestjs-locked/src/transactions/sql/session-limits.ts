import type { TransactionBounds } from './database-session.js';

/** The settings of PostgreSQL that limit a transaction, in the order in which they are read and armed. */
export const LIMITS = [
  ['idleMs', 'idle_in_transaction_session_timeout'],
  ['statementMs', 'statement_timeout'],
  ['lockMs', 'lock_timeout'],
  ['totalMs', 'transaction_timeout'],
] as const satisfies readonly (readonly [keyof TransactionBounds, string])[];

type LimitName = (typeof LIMITS)[number][1];

/** An expression for the limits of a session: the version of its server, then each setting as shown. */
export const SHOWN_LIMITS = `concat_ws(' ', current_setting('server_version_num'), ${LIMITS.map(
  ([, name]) => `current_setting('${name}', true)`,
).join(', ')})`;

/** The first version that has `transaction_timeout`. */
const HAS_TOTAL = 170_000;
/** How often the limits of a session may differ from those of the previous one before nothing is expected any more. */
const MAX_SURPRISES = 16;

/** One setting with its value, as a string for PostgreSQL. */
export interface Setting {
  readonly name: LimitName;
  readonly value: string;
}

/** The settings of a statement, if the session shows the expected limits. */
export interface Arming {
  /** The expected limits, in the form of `SHOWN_LIMITS`. */
  readonly shown: string;
  readonly settings: readonly Setting[];
  /** Set if the statement itself may wait less for a row than those after it. */
  readonly wait: { readonly ms: number; readonly afterwards: number } | undefined;
}

/** The limits of a session, in the form of `SHOWN_LIMITS`, and the settings required to add ours. */
export class ExpectedLimits {
  readonly shown: string;
  readonly #present: ReadonlyMap<LimitName, number>;

  private constructor(shown: string, present: ReadonlyMap<LimitName, number>) {
    this.shown = shown;
    this.#present = present;
  }

  /** @returns undefined if the string does not have the known form, for example from another kind of server */
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

  /** @param waitMs how long the arming statement may wait for a row; Infinity = as long as later ones */
  armingFor(bounds: TransactionBounds, waitMs: number): Arming {
    const settings = this.#settingsFor(bounds);
    const given = settings.find(({ name }) => name === 'lock_timeout')?.value;
    const afterwards = Number(given ?? this.#present.get('lock_timeout') ?? 0);
    const isShorter = waitMs < (afterwards === 0 ? Infinity : afterwards);
    const wait = isShorter ? { ms: Math.floor(waitMs), afterwards } : undefined;
    return { shown: this.shown, settings, wait };
  }

  /** The settings in order. A stricter limit of the session stays in force. */
  #settingsFor(bounds: TransactionBounds): readonly Setting[] {
    return LIMITS.flatMap(([bound, name]): readonly Setting[] => {
      const ms = Math.floor(bounds[bound] ?? 0);
      const present = this.#present.get(name);
      if (ms === 0 || present === undefined || (present > 0 && present <= ms)) return [];
      const setting = { name, value: String(ms) };
      // A running transaction time-out is only replaced after it was switched off.
      const isRunning = name === 'transaction_timeout' && present > 0;
      return isRunning ? [{ name, value: '0' }, setting] : [setting];
    });
  }
}

/**
 * The limits of a database's last session. The next session is expected to have the same, so that the time-outs can be
 * armed by a statement that compares one string and sets constants. The general statement works with any limits, but
 * takes PostgreSQL longer to plan than the claim. A wrong expectation does no harm, because the statement that relies
 * on it also checks it.
 */
export class SessionLimits {
  #expected: ExpectedLimits | undefined;
  #surprises = 0;

  get expected(): ExpectedLimits | undefined {
    return this.#expected;
  }

  /** @param shown the limits of a session, in the form of `SHOWN_LIMITS` */
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
