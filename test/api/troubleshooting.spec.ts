import { describe, expect, it } from '@jest/globals';
import * as library from 'nestjs-locked';
import { LockError } from 'nestjs-locked';
import ts from 'typescript';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readDocument, ROOT } from './markdown.js';

const SOURCES = join(ROOT, 'libs/nestjs-locked/src');

/** The words that tell one message from others are not shorter than this, placeholders aside. */
const TELLING_LENGTH = 18;

const { text } = readDocument('docs/troubleshooting.md');

/** Each item of a list begins with one message or several, and has what to do on a line of its own. */
const messages = [...text.matchAll(/^- ((?:`[^`]+`,\s+)*`[^`]+`)\\$/gm)].flatMap(([, line = '']) =>
  [...line.matchAll(/`([^`]+)`/g)].map(([, message = '']) => message),
);

describe('docs/troubleshooting.md', () => {
  const texts = textsOfSources();

  it('is keyed by messages', () => {
    expect(messages.length).toBeGreaterThan(100);
    expect(new Set(messages).size).toBe(messages.length);
  });

  it.each(messages)('the library still says: %s', (message) => {
    const parts = fixedParts(message);
    expect(parts.filter((part) => !isMadeOf(texts, part))).toEqual([]);
    expect(parts.join('').length).toBeGreaterThanOrEqual(TELLING_LENGTH);
  });
});

describe('every error code is on the page', () => {
  it.each(codes())('%s', (code) => {
    expect(text).toContain(code);
  });
});

describe('a part of a message', () => {
  const texts = ["Lock '", "' was lost (", 'expired', '): ', 'its lease has ended; ask again'];

  it('is the text between placeholders', () => {
    const parts = fixedParts("Lock '<key>' was lost (expired): its lease has ended; …");
    expect(parts).toEqual(["Lock '", "' was lost (expired): its lease has ended; "]);
    expect(parts.filter((part) => isMadeOf(texts, part))).toEqual(parts);
  });

  it.each(["' was last (expired): its lease", "' was lost (expired) its lease", 'lost its lease'])(
    'is not found if it is worded differently: %s',
    (part) => expect(isMadeOf(texts, part)).toBe(false),
  );
});

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
 * Whether the part is in one of the texts, or is composed of several: the end of one, any number of whole ones,
 * and the beginning of the last.
 */
function isMadeOf(texts: readonly string[], part: string): boolean {
  if (texts.some((text) => text.includes(part))) return true;
  const seams = new Set<number>();
  for (let length = 1; length < part.length; length++) {
    const beginning = part.slice(0, length);
    if (texts.some((text) => text.endsWith(beginning))) seams.add(length);
  }
  // A set that grows while it is iterated: every seam that is found is examined in turn.
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
