import { describe, expect, it } from '@jest/globals';
import * as library from 'nestjs-locked';
import { LockError } from 'nestjs-locked';
import ts from 'typescript';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readDocument, ROOT } from './markdown.js';
import { saidMessages, withGaps } from './said-messages.js';

const SOURCES = join(ROOT, 'libs/nestjs-locked/src');

/** The words that tell one message from others are not shorter than this, placeholders aside. */
const TELLING_LENGTH = 18;

/** The beginnings of messages that have no entry yet. An entry that is written leaves this list. */
const NOT_YET = [
  "Unknown option '…':",
  'Invalid options: … must be an object',
  "Cannot lock with …: it is for HTTP routes, this is '…'; use @Locked on",
  'Cannot make a LockService: inject the one that RedisLockModule provide',
  "Cannot build one key from '…': it goes through a list",
  'Cannot give test locks to …: it has no method with @Locked',
  'lockAware takes an adapter of @nestjs-cls/transactional, such as new T',
  'lockAware takes a TypeORM DataSource',
  "Cannot tell the fencing token of '…': this lock holds",
  "Unknown option 'onBusy': … takes none; use withLock, or tryAcquire, wh",
  "Cannot lock …; pass a key such as 'stock:42', or several",
  'Cannot lock … keys in one call: at most … are taken at once, so that R',
  'Invalid key template …:',
  "Cannot ensure lock '…' for … ms: maxHoldMs ends it in … ms; ask for le",
  "Cannot ensure lock '…' for … ms, … ms are left:",
  "Cannot tell whether lock '…' was released: …; it ends with its lease",
  'Redis has not answered an earlier command for this key yet',
  'Redis has not answered yet',
  "Cannot lock '…': Redis has not answered an earlier command for this ke",
  "Invalid key of @Locked on …: it must be a template such as 'stock:…',",
  'it gave an empty list: nothing would be locked',
  'Cannot bind … in … of …: it has …, and positions begin with 0',
  'Cannot lock …: it was called without its instance; call it as a method',
  'Cannot apply @LockKey(…) in …:',
  'Invalid lock service name: … is not the name given to RedisLockModule.',
  'Invalid option of …:',
  "Invalid option of @Locked on …: returns is '…', but the method is decl",
  ". Its signal has aborted; the work may overlap with another holder's",
  'Redis is lost: …. Locks that are held are kept while their leases last',
  'Redis is back after … ms',
  "Unknown option '…' of RedisLockModule.forRootAsync: return it from use",
  "Invalid option keyPrefix: '…' must be a text without braces and white",
  'Cannot subscribe to the result of …: its lock was released when the fi',
  'Cannot lock …: it returned an …, which could not be seen while its cla',
  'Cannot iterate the result of …: it is not an async iterable; leave out',
  'Cannot iterate the result of … again: its lock was released when the f',
  "Invalid option connection: … cannot be used; pass a URL such as 'redis",
  "Invalid option connection: … must be a URL such as 'redis://localhost:",
  'Redis ….… is too old: nestjs-locked needs … or newer',
  'Cannot …: Redis did not answer within … ms',
  'The fence cannot be claimed in a read-only transaction, because the cl',
  'lockAware cannot guard transactions of a synchronous Drizzle driver (b',
  'A transaction was run without a call of wrap: nothing has guarded it,',
  'A transaction is run by a function that opens it: run(async (wrap) =>',
  "Cannot claim the fence on connection '…': how its transactions run sta",
  "The transaction is rolled back: lock '…' is about to end and Redis doe",
  "Invalid option dialect: '…' must be 'postgres' or 'mysql' (also for Ma",
];

/** The codes that the page does not name yet. */
const CODES_NOT_YET = [
  ...['LOCK_NOT_ACQUIRED', 'LOCK_ABORTED', 'LOCK_LOST', 'LOCK_FENCED', 'LOCK_IN_TRANSACTION'],
  ...['LOCK_STORE_FAILED', 'LOCK_KEY_INVALID', 'LOCK_CONFIG_INVALID'],
];

const messages = [...readDocument('docs/troubleshooting.md').text.matchAll(/^### `(.+)`$/gm)].map(
  ([, message = '']) => message,
);

describe('docs/troubleshooting.md', () => {
  const texts = textsOfSources();

  it('is keyed by messages', () => {
    expect(messages.length).toBeGreaterThan(20);
    expect(new Set(messages).size).toBe(messages.length);
  });

  it.each(messages)('the library still says: %s', (message) => {
    const parts = fixedParts(message);
    expect(parts.filter((part) => !isMadeOf(texts, part))).toEqual([]);
    expect(parts.join('').length).toBeGreaterThanOrEqual(TELLING_LENGTH);
  });
});

describe('every message has an entry', () => {
  const headings = messages.map(withGaps);

  it.each(saidMessages(SOURCES))('$where: $text', ({ text }) => {
    if (NOT_YET.some((beginning) => text.startsWith(beginning))) return;
    const enough = Math.min(TELLING_LENGTH, text.length);
    expect(headings.filter((heading) => mostInCommon(text, heading) >= enough)).not.toEqual([]);
  });

  it('is a test of the messages that there are', () => {
    const texts = saidMessages(SOURCES).map(({ text }) => text);
    expect(texts.length).toBeGreaterThan(70);
    expect(texts).toContain("Lock '…' was not asked for: the application is shutting down");
    expect(texts.some((text) => text.startsWith('Nothing listens to SIGTERM'))).toBe(true);
  });
});

describe('every error code is on the page', () => {
  const { text } = readDocument('docs/troubleshooting.md');

  it.each(codes())('%s', (code) => {
    if (!CODES_NOT_YET.includes(code)) expect(text).toContain(code);
  });
});

describe('a part of a message', () => {
  const texts = ["Lock '", "' was lost (", 'expired', '): ', 'its lease has ended; ask again'];

  it('is what stands between placeholders', () => {
    const parts = fixedParts("Lock '<key>' was lost (expired): its lease has ended; …");
    expect(parts).toEqual(["Lock '", "' was lost (expired): its lease has ended; "]);
    expect(parts.filter((part) => isMadeOf(texts, part))).toEqual(parts);
  });

  it.each(["' was last (expired): its lease", "' was lost (expired) its lease", 'lost its lease'])(
    'is not found once it is worded otherwise: %s',
    (part) => expect(isMadeOf(texts, part)).toBe(false),
  );
});

/** How long the longest text is that stands in both. */
function mostInCommon(one: string, other: string): number {
  let most = 0;
  for (let from = 0; from < one.length; from++) {
    while (from + most < one.length && other.includes(one.slice(from, from + most + 1))) most++;
  }
  return most;
}

function codes(): string[] {
  const classes = Object.entries(library).filter(([name]) => /^Lock\w+Error$/.test(name));
  return classes
    .filter(([, exported]) => exported !== LockError)
    .map(([, exported]) => new (exported as ErrorClass)('message', 'key', 0).code);
}

type ErrorClass = new (...args: unknown[]) => { code: string };

function fixedParts(message: string): string[] {
  return message.split(/<[^>]*>|…/).filter((part) => part.trim() !== '');
}

/**
 * Whether the part stands in one of the texts, or is composed of several: the end of one, any number of whole ones,
 * and the beginning of the last.
 */
function isMadeOf(texts: readonly string[], part: string): boolean {
  if (texts.some((text) => text.includes(part))) return true;
  const seams = new Set<number>();
  for (let length = 1; length < part.length; length++) {
    const beginning = part.slice(0, length);
    if (texts.some((text) => text.endsWith(beginning))) seams.add(length);
  }
  // A set that grows while it is walked through: every seam that is found is looked at in its turn.
  for (const seam of seams) {
    for (const text of texts) {
      if (text !== '' && part.startsWith(text, seam)) seams.add(seam + text.length);
    }
  }
  return [...seams].some((seam) => texts.some((text) => text.startsWith(part.slice(seam))));
}

/** The texts in the code of the library, comments aside; those in backticks in the pieces between their values. */
function textsOfSources(): string[] {
  const files = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' }).filter((path) =>
    path.endsWith('.ts'),
  );
  return files.flatMap((file) => textsIn(readFileSync(join(SOURCES, file), 'utf8')));
}

function textsIn(source: string): string[] {
  const texts: string[] = [];
  const visit = (node: ts.Node): void => {
    if (
      ts.isStringLiteralLike(node) ||
      ts.isTemplateHead(node) ||
      ts.isTemplateMiddleOrTemplateTail(node)
    ) {
      texts.push(node.text);
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile('source.ts', source, ts.ScriptTarget.Latest));
  return texts;
}
