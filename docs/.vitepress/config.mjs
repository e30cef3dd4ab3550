/** The documentation site: `npm run docs` builds it, `npm run docs:dev` shows it while you write. */
import { defineConfig } from 'vitepress';
import { fileNames } from './file-names.mjs';
import { githubAnchor } from './github-anchor.mjs';
import { linksOut, REPOSITORY } from './links-out.mjs';
import { sidebar, sidebarOfDecisions } from './pages.mjs';

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
  // The pages of the API reference are long.
  vite: { build: { chunkSizeWarningLimit: 2_000 } },
  markdown: {
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    anchor: { slugify: githubAnchor },
    config(markdown) {
      markdown.use(linksOut);
      markdown.use(fileNames);
    },
  },
  themeConfig: {
    sidebar: { '/': sidebar(), '/adr/': sidebarOfDecisions() },
    outline: { level: [2, 3] },
    search: { provider: 'local' },
    nav: [
      { text: 'Quick start', link: '/quick-start' },
      { text: 'Troubleshooting', link: '/troubleshooting' },
      { text: 'API', link: '/api/' },
    ],
    ...(REPOSITORY !== undefined && { socialLinks: [{ icon: 'github', link: REPOSITORY }] }),
  },
});
