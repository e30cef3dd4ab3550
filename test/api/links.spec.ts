import { describe, expect, it } from '@jest/globals';
import { existsSync } from 'node:fs';
import { join, posix } from 'node:path';
import { sidebar } from '../../docs/.vitepress/pages.mjs';
import { anchorsIn, type Document, readDocument, readDocuments, ROOT } from './markdown.js';

const documents = readDocuments();

describe.each(documents)('$path', (document) => {
  it('has links that lead to a file, and to a heading of it', () => {
    expect(linksIn(document).filter((link) => !leadsSomewhere(document, link))).toEqual([]);
  });
});

it('every page of docs/ is in the sidebar of the site', () => {
  const pages = documents
    .map(({ path }) => path)
    .filter((path) => /^docs\/[^/]+$/.test(path) && path !== 'docs/index.md');
  const named = sidebar().flatMap(({ items }) => items.map(({ link }) => `docs${link}.md`));
  expect(pages.filter((path) => !named.includes(path))).toEqual([]);
});

it('docs/adr/README.md lists every decision once, with its heading', () => {
  const { text } = readDocument('docs/adr/README.md');
  const listed = [...text.matchAll(/^- \[(.+?)\]\((\d{4}-[\w-]+\.md)\)/gm)];
  const decisions = documents.filter(({ path }) => /^docs\/adr\/\d/.test(path));
  expect(listed.map(([, heading, file]) => `${file}: ${heading}`).sort()).toEqual(
    decisions
      .map((one) => `${posix.basename(one.path)}: ${/^# (.+)$/m.exec(one.text)?.[1]}`)
      .sort(),
  );
});

it('docs/how-it-works.md names files that exist', () => {
  const { text } = readDocument('docs/how-it-works.md');
  const named = text.match(/\b[a-z-]+\/[a-z/-]+\.ts\b/g) ?? [];
  expect(named.length).toBeGreaterThan(5);
  const missing = named.filter((file) => !existsSync(join(ROOT, 'libs/nestjs-locked/src', file)));
  expect(missing).toEqual([]);
});

it('anchors are those that GitHub makes', () => {
  const text = '# `take()`: a *Test*, once\n\n```sh\n# no heading\n```\n\n## Twice\n\n## Twice\n';
  const anchors = anchorsIn({ path: 'test.md', text, blocks: [] });
  expect([...anchors]).toEqual(['take-a-test-once', 'twice', 'twice-1']);
});

/** The addresses in `[text](address)` and `![text](address)` that stay in the repository. */
function linksIn({ text }: Document): string[] {
  const shown = text.replaceAll(/<!-- site: [^]*? -->/g, ''); // the site alone has those
  const links = [...shown.matchAll(/\]\(([^()\s]+)\)/g)].map(([, link = '']) => link);
  return links.filter((link) => !/^https?:/.test(link));
}

/** The file that a link in a document leads to. */
function targetOf(path: string, link: string): string {
  const [file = ''] = link.split('#');
  return file === '' ? path : posix.join(posix.dirname(path), file);
}

function leadsSomewhere({ path }: Document, link: string): boolean {
  const [, anchor] = link.split('#');
  const target = targetOf(path, link);
  if (!existsSync(join(ROOT, target))) return false;
  return anchor === undefined || anchorsIn(readDocument(target)).has(anchor);
}
