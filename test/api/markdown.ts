import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { githubAnchor } from '../../docs/.vitepress/github-anchor.mjs';

export const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** A fenced block: ` ```ts file=stock.service.ts `. */
export interface Block {
  readonly language: string;
  /** The name other blocks can import it by, if it has one. */
  readonly file: string | undefined;
  /** The line of its fence. */
  readonly line: number;
  readonly code: string;
}

export interface Document {
  /** Relative to the repository. */
  readonly path: string;
  readonly text: string;
  readonly blocks: readonly Block[];
}

/** The documents that people write: those at the top, of the library, and below docs/; not the built reference. */
export function readDocuments(): Document[] {
  const top = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'test/protocol-rules.md'];
  const changes = readdirSync(join(ROOT, '.changeset'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `.changeset/${name}`);
  const library = [
    ...['README.md', 'CHANGELOG.md'],
    ...['src/core/README.md', 'src/redis/README.md', 'src/transactions/README.md'],
  ].map((name) => `libs/nestjs-locked/${name}`);
  const docs = readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .map((path) => `docs/${path.replaceAll('\\', '/')}`)
    .filter((path) => path.endsWith('.md') && !/^docs\/(?:api|\.vitepress)\//.test(path));
  return [...top, ...changes, ...library, ...docs.sort()].map(readDocument);
}

export function readDocument(path: string): Document {
  const text = readFileSync(join(ROOT, path), 'utf8').replaceAll('\r\n', '\n');
  const blocks = [...text.matchAll(/^```(\w+)(?: file=(\S+))?\n([^]*?)^```$/gm)].map((match) => ({
    language: match[1] ?? '',
    file: match[2],
    line: text.slice(0, match.index).split('\n').length,
    code: match[3] ?? '',
  }));
  return { path, text, blocks };
}

/** The tables below a heading, without their heads: one text per cell, trimmed. */
export function tablesBelow(heading: string, { text }: Document): string[][][] {
  const section = text.split(/^#+ /m).find((part) => part.startsWith(`${heading}\n`)) ?? '';
  const tables = section.match(/(?:^\|.*\n)+/gm) ?? [];
  return tables.map((table) => table.trimEnd().split('\n').slice(2).map(cellsOf));
}

/** The cells of a row of a table, trimmed. */
export function cellsOf(row: string): string[] {
  return row
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.trim());
}

/** Where links into a document can lead: the anchors that GitHub makes of its headings. */
export function anchorsIn({ text }: Document): Set<string> {
  const prose = text.replaceAll(/^```[^]*?^```$/gm, '');
  const anchors = new Set<string>();
  for (const [, heading = ''] of prose.matchAll(/^#+ (.+)$/gm)) {
    // A link in a heading counts with its text only.
    const anchor = githubAnchor(heading.replaceAll(/\]\([^)]*\)/g, ''));
    let unique = anchor;
    for (let count = 1; anchors.has(unique); count++) unique = `${anchor}-${count}`;
    anchors.add(unique);
  }
  return anchors;
}
