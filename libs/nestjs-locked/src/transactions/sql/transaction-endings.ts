import type { SqlDialect } from './database-session.js';
import { readingsOf } from './sql-statements.js';

/**
 * How a text ends its transaction: `mixed` is a rollback among other statements, which would then be committed
 * separately.
 */
export type Ending = 'commit' | 'rollback' | 'prepare' | 'mixed';

/** Nearly every statement has none of these words, and is not parsed. In MySQL, a version may precede them. */
const MAY_END = /(?:COMMIT|ROLLBACK)\b|\b(?:END|ABORT|PREPARE)\b/i;

interface Words {
  readonly commit: RegExp;
  readonly rollback: RegExp;
  readonly prepare?: RegExp;
}

/** A COMMIT as the first statement of a MariaDB block, which is also allowed outside routines. */
const COMPOUND =
  /^(?=(?:\S+\s*:\s*)?(?:BEGIN\s+NOT\s+ATOMIC|IF|ELSEIF|ELSE|CASE|WHEN|WHILE|FOR|LOOP|REPEAT)\b)[^]*\b(?:ATOMIC|THEN|ELSE|DO|LOOP|REPEAT)\s+COMMIT(?:\s+(?:WORK|AND\b[^]*|(?:NO\s+)?RELEASE))*$/;

const WORDS: Readonly<Record<SqlDialect, Words>> = {
  postgres: {
    commit: /^(?:COMMIT|END)\b(?!\s+PREPARED\b)/i,
    rollback: /^(?:ROLLBACK|ABORT)\b(?!\s+PREPARED\b)(?!(?:\s+(?:WORK|TRANSACTION))?\s+TO\b)/i,
    prepare: /^PREPARE\s+TRANSACTION\b/i,
  },
  mysql: {
    commit: new RegExp(`^COMMIT\\b|${COMPOUND.source}`, 'i'),
    rollback: /^(?:BEGIN\s+NOT\s+ATOMIC\s+)?ROLLBACK\b(?!(?:\s+WORK)?\s+TO\b)/i,
  },
};

/**
 * How a text ends its transaction, if that can be parsed: rollbacks to a savepoint, comments, quoted parts and function
 * bodies end nothing. If the text can be parsed in several ways, the worst of them counts.
 *
 * @param dialect undefined if the database is unknown, so that any dialect is possible
 */
export function endingIn(sql: string, dialect?: SqlDialect): Ending | undefined {
  if (!MAY_END.test(sql)) return undefined;
  const endings = dialectsOf(dialect).flatMap((one) =>
    readingsOf(sql, one).map((statements) => endingOf(statements, WORDS[one])),
  );
  const refused = endings.find((ending) => ending !== undefined && ending !== 'rollback');
  return refused ?? endings.find((ending) => ending !== undefined);
}

/** Nearly every statement has none of these words, and is not parsed. */
const MAY_BEGIN = /(?:BEGIN|START|AUTOCOMMIT)\b/i;
/** `autocommit` commits only if it was off; otherwise, it is not set in a transaction. */
const BEGINS =
  /^(?:BEGIN(?:\s+WORK)?\s*(?:\*\/\s*)?$|START\s+TRANSACTION\b|SET\s(?:[^]*,)?\s*(?:(?:SESSION|LOCAL)\s+|@@(?:(?:SESSION|LOCAL)\s*\.\s*)?)?AUTOCOMMIT\s*:?=\s*(?:(?:1|ON|TRUE)\b|''))/i;

/** Whether a text commits its transaction by beginning another one, on MySQL or MariaDB. */
export function commitsByBeginning(sql: string): boolean {
  if (!MAY_BEGIN.test(sql)) return false;
  return readingsOf(sql, 'mysql').some((statements) => statements.some((one) => BEGINS.test(one)));
}

/** The index of the COMMIT among the statements of a text, from 0; -1 if there is none. */
export function placeOfCommit(sql: string, dialect: SqlDialect): number {
  const [statements = []] = readingsOf(sql, dialect);
  return statements.findIndex((one) => WORDS[dialect].commit.test(one));
}

/**
 * Whether other statements follow the COMMIT in its text, so that an error may be theirs, after a successful COMMIT.
 *
 * @param dialect undefined if the database is unknown, so that any dialect is possible
 */
export function isCommitFollowed(sql: string, dialect?: SqlDialect): boolean {
  return dialectsOf(dialect).some((one) =>
    readingsOf(sql, one).some((statements) => {
      const at = statements.findIndex((statement) => WORDS[one].commit.test(statement));
      return at !== -1 && at < statements.length - 1;
    }),
  );
}

function dialectsOf(dialect: SqlDialect | undefined): readonly SqlDialect[] {
  return dialect === undefined ? ['postgres', 'mysql'] : [dialect];
}

function endingOf(
  statements: readonly string[],
  { commit, rollback, prepare }: Words,
): Ending | undefined {
  if (statements.some((one) => commit.test(one))) return 'commit';
  if (prepare !== undefined && statements.some((one) => prepare.test(one))) return 'prepare';
  if (!statements.some((one) => rollback.test(one))) return undefined;
  return statements.length === 1 ? 'rollback' : 'mixed';
}
