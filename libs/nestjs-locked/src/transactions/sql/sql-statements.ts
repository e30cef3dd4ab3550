import type { SqlDialect } from './database-session.js';

/** One way to read a text: the statements, in which a comment is a space, and what is quoted is `''`. */
interface Reading {
  readonly statements: readonly string[];
  /** False if a comment, or what is quoted, does not end: PostgreSQL runs nothing of such a text. */
  readonly isWhole: boolean;
}

/** How a text is divided. What is quoted is left to the reading: it may be too long for a regular expression. */
interface Lexis {
  readonly tokens: RegExp;
  /** The quotes, and whether a backslash escapes what follows it between them. */
  readonly quotes: Readonly<Partial<Record<string, boolean>>>;
}

const POSTGRES_SPACE = /\s+|--[^\n\r]*/;
const POSTGRES_WORD = /[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*/;
const DOLLARS = /\$(?<tag>(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?)\$[^]*?\$\k<tag>\$/;
const MYSQL_SPACE = /\s+|(?:--(?=\s|$)|#)[^\n]*/;
const MYSQL_WORD = /[\w$\u0080-\uffff]+/;

/** `/*` and `*\/` are left to the reading as well: in PostgreSQL comments nest, and MySQL executes some. */
const POSTGRES_TOKENS = new RegExp(
  `(?<space>${POSTGRES_SPACE.source})|(?<quoted>${DOLLARS.source})|(?<word>${POSTGRES_WORD.source})|[^]`,
  'y',
);
const MYSQL_TOKENS = new RegExp(
  `(?<space>${MYSQL_SPACE.source})|(?<word>${MYSQL_WORD.source})|[^]`,
  'y',
);

/** With backslashes as escapes in every literal, and without: both servers can be set to either. */
const LEXES: Readonly<Record<SqlDialect, readonly Lexis[]>> = {
  postgres: [
    { tokens: POSTGRES_TOKENS, quotes: { "'": false, '"': false } },
    { tokens: POSTGRES_TOKENS, quotes: { "'": true, '"': false } },
  ],
  mysql: [
    { tokens: MYSQL_TOKENS, quotes: { "'": true, '"': true, '`': false } },
    { tokens: MYSQL_TOKENS, quotes: { "'": false, '"': false, '`': false } },
  ],
};

/** What to look at between two quotes. */
const STOPS = {
  "'": { plain: /'/g, escapes: /['\\]/g },
  '"': { plain: /"/g, escapes: /["\\]/g },
  '`': { plain: /`/g, escapes: /[`\\]/g },
};

/** A literal of PostgreSQL with escapes, whatever the settings. */
const ESCAPED = /[eE]'/y;
const SPACE_BETWEEN = new RegExp(POSTGRES_SPACE.source, 'y');

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

/**
 * The ways in which the server may read a text. There is more than one if the text has backslashes, because the
 * settings decide what they mean. A reading in which something quoted does not end is left out if there is a better
 * one.
 */
export function readingsOf(sql: string, dialect: SqlDialect): readonly (readonly string[])[] {
  const [usual, other] = LEXES[dialect] as readonly [Lexis, Lexis];
  const readings = [usual, ...(sql.includes('\\') ? [other] : [])].map((lexis) =>
    read(sql, dialect, lexis),
  );
  const whole = readings.filter(({ isWhole }) => isWhole);
  return (whole.length === 0 ? readings : whole).map(({ statements }) => statements);
}

function read(sql: string, dialect: SqlDialect, { tokens, quotes }: Lexis): Reading {
  const statements: string[] = [];
  let statement = '';
  /** Whether the statement is a CREATE; undefined until its first word. */
  let creates: boolean | undefined;
  /** The body of a function in PostgreSQL, in which statements end as well. */
  let isInBody = false;
  let [parentheses, last] = [0, ''];
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
    const after = afterQuoted(sql, at, dialect, quotes);
    if (after > at) {
      statement += `''`;
      at = after;
      continue;
    }
    tokens.lastIndex = at;
    const { 0: token = '', groups: { space, quoted, word } = {} } = tokens.exec(sql) ?? {};
    if (space !== undefined) statement += ' ';
    else if (quoted !== undefined) statement += `''`;
    else if (word !== undefined) {
      const upper = word.toUpperCase();
      if (creates === true) {
        if (dialect === 'mysql' && ROUTINES.includes(upper)) return ended(true);
        // What it creates comes first. A temporary table is the one thing that does not end the transaction.
        if (dialect === 'mysql' && upper === 'TABLE') creates = false;
        if (upper === 'ATOMIC' && last === 'BEGIN' && parentheses === 0) isInBody = true;
        // Anywhere else, END is the one of a CASE, or a label.
        else if (upper === 'END' && (last === ';' || last === 'ATOMIC')) isInBody = false;
      }
      creates ??= upper === 'CREATE' && statement.trim() === '';
      last = upper;
      statement += word;
    } else if (beginsWith(UNENDED, sql, at)) {
      return ended(false);
    } else if (token === ';' && parentheses === 0 && !isInBody) {
      statements.push(statement);
      [statement, creates] = ['', undefined];
    } else {
      last = token;
      if (token === '(') parentheses++;
      else if (token === ')') parentheses = Math.max(0, parentheses - 1);
      statement += token;
    }
    at += token.length;
  }
  return ended(true);
}

/** @returns where the text continues behind what is quoted here; -1 if nothing is, or it does not end */
function afterQuoted(
  sql: string,
  at: number,
  dialect: SqlDialect,
  quotes: Lexis['quotes'],
): number {
  if (dialect === 'postgres' && beginsWith(ESCAPED, sql, at)) return afterEscaped(sql, at + 1);
  const quote = sql[at] as string;
  const hasEscapes = quotes[quote];
  return hasEscapes === undefined ? -1 : afterLiteral(sql, at, hasEscapes);
}

/** @param at of the quote @returns where the text continues behind the closing quote; -1 if there is none */
function afterLiteral(sql: string, at: number, hasEscapes: boolean): number {
  const quote = sql[at] as keyof typeof STOPS;
  const stops = STOPS[quote][hasEscapes ? 'escapes' : 'plain'];
  stops.lastIndex = at + 1;
  for (let stop = stops.exec(sql); stop !== null; stop = stops.exec(sql)) {
    const isDoubled = sql[stop.index + 1] === quote;
    if (stop[0] === quote && !isDoubled) return stops.lastIndex;
    stops.lastIndex = stop.index + 2;
  }
  return -1;
}

/** Between the parts of one literal is a new line. The parts that follow have the escapes of the first. */
function afterEscaped(sql: string, at: number): number {
  let after = afterLiteral(sql, at, true);
  for (let next = after; next >= 0; next = afterLiteral(sql, next, true)) {
    after = next;
    const from = next;
    while (beginsWith(SPACE_BETWEEN, sql, next)) next = SPACE_BETWEEN.lastIndex;
    if (sql[next] !== "'" || !/[\n\r]/.test(sql.slice(from, next))) break;
  }
  return after;
}

/** @returns where the text continues, which in MySQL may be inside; -1 if the comment does not end */
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
