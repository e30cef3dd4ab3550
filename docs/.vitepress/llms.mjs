/**
 * The documentation for language models (https://llmstxt.org): `llms.txt` lists every page, `llms-full.txt` has the
 * text of those that people write for users, and each page is also there as Markdown, `keys.md` beside `keys.html`.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { sidebar, sidebarOfApi, sidebarOfDecisions } from './pages.mjs';
import { shownOnSite } from './site-only.mjs';

/** @param {import('vitepress').SiteConfig} site */
export function writeLlmsFiles({ outDir, pages, rewrites, site, srcDir }) {
  const texts = new Map(
    pages.map((source) => {
      const page = rewrites.map[source] ?? source;
      return [page, shownOnSite(readFileSync(join(srcDir, source), 'utf8'))];
    }),
  );
  const write = (path, text) => {
    mkdirSync(dirname(join(outDir, path)), { recursive: true });
    writeFileSync(join(outDir, path), text);
  };
  for (const [page, text] of texts) write(page, text);

  const listed = new Set();
  const lineOf = (page) => {
    listed.add(page);
    const { title, summary } = aboutOf(texts.get(page) ?? '');
    return `- [${title}](${site.base}${page})${summary === '' ? '' : `: ${summary}`}`;
  };
  const sections = [...sidebar(), ...sidebarOfDecisions().slice(-1), ...sidebarOfApi()]
    .map(({ text, items }) => {
      const own = linksIn(items)
        .map(pageOf)
        .filter((page) => texts.has(page) && !listed.has(page));
      return own.length === 0 ? '' : `## ${text}\n\n${own.map(lineOf).join('\n')}\n`;
    })
    .filter((section) => section !== '');
  const users = sidebar().flatMap(({ items }) => linksIn(items).map(pageOf));
  const others = [...texts.keys()].filter((page) => !listed.has(page)).sort();
  if (others.length > 0) sections.push(`## Figures\n\n${others.map(lineOf).join('\n')}\n`);

  const head = `# ${site.title}\n\n> ${site.description}\n`;
  write('llms.txt', `${head}\n${sections.join('\n')}`);
  const full = users.filter((page) => !/^(?:api|adr)\//.test(page)).map((page) => texts.get(page));
  write('llms-full.txt', `${head}\n${full.join('\n')}`);
}

/** The links of a part of the sidebar, those in it included. */
function linksIn(items) {
  return items.flatMap(({ link, items: inner = [] }) => [
    ...(link === undefined ? [] : [link]),
    ...linksIn(inner),
  ]);
}

function pageOf(link) {
  return `${link.slice(1)}${link.endsWith('/') ? 'index' : ''}.md`;
}

/** The heading of a page, and its first sentence. */
function aboutOf(text) {
  const [, title = ''] = /^# (.+)$/m.exec(text) ?? [];
  const [paragraph = ''] =
    text
      .replace(/^[^]*?^# .+$/m, '')
      .split(/\n{2,}/)
      .filter((part) => /^\s*(?!```)[\p{L}\d*`[]/u.test(part)) ?? [];
  const plain = paragraph
    .replaceAll(/\[([^\]]+)\]\([^)]*\)|[*]{2}/g, '$1')
    .replaceAll(/\s+/g, ' ')
    .trim();
  const [, sentence = plain] = /^(.+?[.:])(?: |$)/.exec(plain) ?? [];
  return { title: title.replaceAll('`', ''), summary: sentence.replace(/:$/, '.') };
}
