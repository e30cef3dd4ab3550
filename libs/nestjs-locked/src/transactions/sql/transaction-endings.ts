/**
 * How a text ends the transaction in which it is sent: `mixed` is a rollback among other statements, which would then
 * be committed on their own.
 */
export type Ending = 'commit' | 'rollback' | 'prepare' | 'mixed';

/** Nearly every statement has none of these words, and is not read further. */
const MAY_END = /\b(?:COMMIT|END|ROLLBACK|ABORT|PREPARE)\b/i;
/** Comments and quoted texts, in which these words mean nothing. */
const NOT_SQL =
  /'(?:[^'\\]|''|\\.)*'|"(?:[^"]|"")*"|`[^`]*`|\$(\w*)\$[\s\S]*?\$\1\$|--[^\n]*|\/\*[\s\S]*?\*\//g;

const COMMIT = /^(?:COMMIT|END)\b(?!\s+PREPARED\b)/i;
const ROLLBACK = /^(?:ROLLBACK|ABORT)\b(?!\s+PREPARED\b)(?!(?:\s+(?:WORK|TRANSACTION))?\s+TO\b)/i;
const PREPARE = /^PREPARE\s+TRANSACTION\b/i;

/** A rollback to a savepoint ends nothing, and neither do the words of a procedural language in quotes. */
export function endingIn(sql: string): Ending | undefined {
  if (!MAY_END.test(sql)) return undefined;
  const statements = sql
    .replace(NOT_SQL, ' ')
    .split(';')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  if (statements.some((one) => COMMIT.test(one))) return 'commit';
  if (statements.some((one) => PREPARE.test(one))) return 'prepare';
  if (!statements.some((one) => ROLLBACK.test(one))) return undefined;
  return statements.length === 1 ? 'rollback' : 'mixed';
}
