/** The documentation site: `npm run docs` builds it, `npm run docs:dev` shows it while you write. */
import { defineConfig } from 'vitepress';
import { fileNames } from './file-names.mjs';
import { githubAnchor } from './github-anchor.mjs';
import { linksOut, REPOSITORY, VERSION } from './links-out.mjs';
import { writeLlmsFiles } from './llms.mjs';
import { sidebar, sidebarOfApi, sidebarOfDecisions } from './pages.mjs';
import { narrowPictures } from './pictures.mjs';
import { siteOnly } from './site-only.mjs';
import { tableLabels } from './tables.mjs';

/** Where the site is served from, if that is not the root of a host: `DOCS_BASE=/nestjs-locked/ npm run docs`. */
const BASE = process.env.DOCS_BASE ?? '/';

export default defineConfig({
  title: 'nestjs-locked',
  description: 'Distributed locks for NestJS that last until the database transaction has ended',
  lang: 'en',
  base: BASE,
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: `${BASE}icon.svg` }]],
  // A folder begins with its README.md on the code host.
  rewrites: { 'adr/README.md': 'adr/index.md' },
  vite: { build: { chunkSizeWarningLimit: 2_000 } },
  markdown: {
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    anchor: { slugify: githubAnchor },
    config(markdown) {
      markdown.use(siteOnly);
      markdown.use(linksOut);
      markdown.use(fileNames);
      markdown.use(narrowPictures);
      markdown.use(tableLabels);
    },
  },
  transformPageData(page) {
    // The same text as on the code host, laid out as a first screen.
    if (page.relativePath === 'index.md') {
      return {
        frontmatter: { ...page.frontmatter, sidebar: false, aside: false, pageClass: 'home' },
      };
    }
    if (page.relativePath === 'simulator.md') {
      return { frontmatter: { ...page.frontmatter, aside: false, pageClass: 'wide' } };
    }
  },
  buildEnd: writeLlmsFiles,
  themeConfig: {
    sidebar: { '/': sidebar(), '/adr/': sidebarOfDecisions(), '/api/': sidebarOfApi() },
    outline: { level: [2, 3] },
    search: { provider: 'local' },
    nav: [
      { text: 'Quick start', link: '/quick-start' },
      { text: 'Guide', link: '/keys' },
      { text: 'Troubleshooting', link: '/troubleshooting' },
      { text: 'Lock lab', link: '/lab' },
      { text: 'API', link: '/api/' },
      { text: VERSION, link: '/support' },
    ],
    ...(REPOSITORY !== undefined && { socialLinks: [{ icon: 'github', link: REPOSITORY }] }),
  },
});
