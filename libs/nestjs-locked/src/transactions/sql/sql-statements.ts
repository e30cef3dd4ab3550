import type { SqlDialect } from './database-session.js';

/** One way to parse a text: its statements, with comments replaced by a space and quoted parts by `''`. */
interface Reading {
  readonly statements: readonly string[];
  /** False if a comment or quoted part is unterminated: PostgreSQL executes nothing of such a text. */
  readonly isWhole: boolean;
}

/**
 * How a text is tokenized. Quoted parts are scanned separately, because they may be too long for a regular expression.
 */
interface Lexis {
  readonly tokens: RegExp;
  /** The quotes, and whether a backslash escapes inside them. */
  readonly quotes: Readonly<Partial<Record<string, boolean>>>;
}

const POSTGRES_SPACE = /\s+|--[^\n\r]*/;
const POSTGRES_WORD = /[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*/;
const DOLLARS = /\$(?<tag>(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?)\$[^]*?\$\k<tag>\$/;
const MYSQL_SPACE = /\s+|(?:--(?=\s|$)|#)[^\n]*/;
const MYSQL_WORD = /[\w$\u0080-\uffff]+/;

/** `/*` and `*\/` are scanned separately too: in PostgreSQL comments nest, and MySQL executes some. */
const POSTGRES_TOKENS = new RegExp(
  `(?<space>${POSTGRES_SPACE.source})|(?<quoted>${DOLLARS.source})|(?<word>${POSTGRES_WORD.source})|[^]`,
  'y',
);
const MYSQL_TOKENS = new RegExp(
  `(?<space>${MYSQL_SPACE.source})|(?<word>${MYSQL_WORD.source})|[^]`,
  'y',
);

/** With and without backslashes as escapes in every literal: both servers can be configured either way. */
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

/** The characters to look for between two quotes. */
const STOPS = {
  "'": { plain: /'/g, escapes: /['\\]/g },
  '"': { plain: /"/g, escapes: /["\\]/g },
  '`': { plain: /`/g, escapes: /[`\\]/g },
};

/** A PostgreSQL literal with escapes under any settings. */
const ESCAPED = /[eE]'/y;
const SPACE_BETWEEN = new RegExp(POSTGRES_SPACE.source, 'y');

const COMMENT_ENDS: Readonly<Record<SqlDialect, RegExp>> = {
  postgres: /\/\*|\*\//g,
  mysql: /\*\//g,
};
/** A comment that MySQL or MariaDB executes; the version in it is ignored. */
const EXECUTED = /\/\*M?!\d*/y;
/** An opening quote without an end. */
const UNENDED = /['"`]|\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/y;

/** In MySQL, their bodies are statements, and creating one already ends the transaction. */
const ROUTINES: readonly string[] = ['FUNCTION', 'PROCEDURE', 'TRIGGER', 'EVENT', 'PACKAGE'];

type Readings = readonly (readonly string[])[];

/** How many texts are remembered for each dialect, and how long they may be, in characters. */
const MOST_KNOWN = 200;
const LONGEST_KNOWN = 4_000;

/** What was read before: most applications send the same few texts, and our own claim has an END in it. */
const known: Readonly<Record<SqlDialect, Map<string, Readings>>> = {
  postgres: new Map(),
  mysql: new Map(),
};

/**
 * The ways in which the server may parse a text. A text with backslashes has several, because their meaning depends on
 * the settings. A reading with an unterminated quote is dropped if there is a better one.
 */
export function readingsOf(sql: string, dialect: SqlDialect): Readings {
  const before = known[dialect].get(sql);
  if (before !== undefined) return before;
  const readings = allReadingsOf(sql, dialect);
  if (sql.length > LONGEST_KNOWN) return readings;
  if (known[dialect].size === MOST_KNOWN) known[dialect].clear();
  known[dialect].set(sql, readings);
  return readings;
}

function allReadingsOf(sql: string, dialect: SqlDialect): Readings {
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
  /** Whether the scan is inside the body of a PostgreSQL function, in which statements end too. */
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
        // The object type comes first. Only creating a temporary table does not end the transaction.
        if (dialect === 'mysql' && upper === 'TABLE') creates = false;
        if (upper === 'ATOMIC' && last === 'BEGIN' && parentheses === 0) isInBody = true;
        // Anywhere else, END belongs to a CASE, or is a label.
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

/** @returns the position after the quoted part that begins here; -1 if there is none, or it is unterminated */
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

/** @param at the position of the quote @returns the position after the closing quote; -1 if there is none */
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

/** The parts of one literal are separated by line breaks. Later parts have the escapes of the first. */
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

/** @returns the position after the comment, in MySQL possibly inside it; -1 if the comment is unterminated */
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
