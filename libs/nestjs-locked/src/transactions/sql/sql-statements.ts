import type { SqlDialect } from './database-session.js';

/** One way to read a text: the statements, in which a comment is a space, and what is quoted is `''`. */
interface Reading {
  readonly statements: readonly string[];
  /** False if a comment, or what is quoted, does not end: PostgreSQL runs nothing of such a text. */
  readonly isWhole: boolean;
}

const WITH_BACKSLASHES = /'[^'\\]*(?:(?:''|\\[^])[^'\\]*)*'/;
const WITHOUT_BACKSLASHES = /'[^']*(?:''[^']*)*'/;
const DOUBLE_WITH_BACKSLASHES = /"[^"\\]*(?:(?:""|\\[^])[^"\\]*)*"/;
const DOUBLE_WITHOUT_BACKSLASHES = /"[^"]*(?:""[^"]*)*"/;

/** `/*` and `*\/` are left to the reading itself: in PostgreSQL comments nest, and MySQL executes some. */
function tokens(space: RegExp, word: RegExp, ...quoted: RegExp[]): RegExp {
  const oneOf = quoted.map(({ source }) => source).join('|');
  const source = `(?<space>${space.source})|(?<quoted>${oneOf})|(?<word>${word.source})|[^]`;
  return new RegExp(source, 'y');
}

const POSTGRES_SPACE = /\s+|--[^\n\r]*/;
const POSTGRES_WORD = /[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*/;
const ESCAPED = new RegExp(`[eE]${WITH_BACKSLASHES.source}`);
const DOLLARS = /\$(?<tag>(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?)\$[^]*?\$\k<tag>\$/;
const MYSQL_SPACE = /\s+|(?:--(?=\s|$)|#)[^\n]*/;
const MYSQL_WORD = /[\w$\u0080-\uffff]+/;
const BACKTICKS = /`[^`]*(?:``[^`]*)*`/;

/** With backslashes as escapes in every literal, and without: both servers can be set to either. */
const TOKENS: Readonly<Record<SqlDialect, readonly RegExp[]>> = {
  postgres: [WITHOUT_BACKSLASHES, WITH_BACKSLASHES].map((literal) =>
    tokens(POSTGRES_SPACE, POSTGRES_WORD, ESCAPED, literal, DOUBLE_WITHOUT_BACKSLASHES, DOLLARS),
  ),
  mysql: [
    tokens(MYSQL_SPACE, MYSQL_WORD, WITH_BACKSLASHES, DOUBLE_WITH_BACKSLASHES, BACKTICKS),
    tokens(MYSQL_SPACE, MYSQL_WORD, WITHOUT_BACKSLASHES, DOUBLE_WITHOUT_BACKSLASHES, BACKTICKS),
  ],
};

const COMMENT_ENDS: Readonly<Record<SqlDialect, RegExp>> = {
  postgres: /\/\*|\*\//g,
  mysql: /\*\//g,
};
/** What MySQL, or MariaDB, executes; which versions of them do is not looked at. */
const EXECUTED = /\/\*M?!\d*/y;
/** Where what is quoted begins, but does not end. */
const UNENDED = /['"`]|\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/y;

/** In MySQL, their bodies are statements, and to create one of them ends the transaction already. */
const ROUTINES: readonly string[] = ['FUNCTION', 'PROCEDURE', 'TRIGGER', 'EVENT', 'PACKAGE'];
const CREATE = /^\s*CREATE\b/i;

/**
 * The ways in which the server may read a text. There is more than one if the text has backslashes, because the
 * settings decide what they mean. A reading in which something quoted does not end is left out if there is a better
 * one.
 */
export function readingsOf(sql: string, dialect: SqlDialect): readonly (readonly string[])[] {
  const [usual, other] = TOKENS[dialect] as readonly [RegExp, RegExp];
  const readings = [usual, ...(sql.includes('\\') ? [other] : [])].map((tokens) =>
    read(sql, dialect, tokens),
  );
  const whole = readings.filter(({ isWhole }) => isWhole);
  return (whole.length === 0 ? readings : whole).map(({ statements }) => statements);
}

function read(sql: string, dialect: SqlDialect, tokens: RegExp): Reading {
  const statements: string[] = [];
  let statement = '';
  let [parentheses, blocks, lastWord] = [0, 0, ''];
  const ended = (isWhole: boolean): Reading => ({
    statements: [...statements, statement].map((one) => one.trim()).filter((one) => one !== ''),
    isWhole,
  });
  for (let at = 0; at < sql.length;) {
    if (sql.startsWith('/*', at)) {
      at = afterComment(sql, at, dialect);
      if (at < 0) return ended(false);
      statement += ' ';
      continue;
    }
    tokens.lastIndex = at;
    const { 0: token = '', groups: { space, quoted, word } = {} } = tokens.exec(sql) ?? {};
    if (space !== undefined) statement += ' ';
    else if (quoted !== undefined) statement += `''`;
    else if (word !== undefined) {
      const upper = word.toUpperCase();
      if (CREATE.test(statement)) {
        if (dialect === 'mysql' && ROUTINES.includes(upper)) return ended(true);
        if (upper === 'ATOMIC' && lastWord === 'BEGIN' && parentheses === 0) blocks = 1;
        else if (blocks > 0 && upper === 'CASE') blocks++;
        else if (blocks > 0 && upper === 'END') blocks--;
      }
      lastWord = upper;
      statement += word;
    } else if (beginsWith(UNENDED, sql, at)) {
      return ended(false);
    } else if (token === ';' && parentheses === 0 && blocks === 0) {
      statements.push(statement);
      statement = '';
    } else {
      lastWord = '';
      if (token === '(') parentheses++;
      else if (token === ')') parentheses = Math.max(0, parentheses - 1);
      statement += token;
    }
    at += token.length;
  }
  return ended(true);
}

/** @returns where the text goes on, which in MySQL may be inside; -1 if the comment does not end */
function afterComment(sql: string, at: number, dialect: SqlDialect): number {
  if (dialect === 'mysql' && beginsWith(EXECUTED, sql, at)) return EXECUTED.lastIndex;
  const ends = COMMENT_ENDS[dialect];
  ends.lastIndex = at + 2;
  for (let depth = 1; ;) {
    const [found] = ends.exec(sql) ?? [];
    if (found === undefined) return -1;
    depth += found === '/*' ? 1 : -1;
    if (depth === 0) return ends.lastIndex;
  }
}

function beginsWith(what: RegExp, sql: string, at: number): boolean {
  what.lastIndex = at;
  return what.test(sql);
}
