/**
 * Links that leave docs/. On the code host they are relative, like all others; the site has no such files, and leads
 * to the repository instead. Its address is the one in the package's package.json; as long as there is none, the text
 * of the link remains.
 */
import { readFileSync } from 'node:fs';
import { posix } from 'node:path';

const { repository, version } = JSON.parse(
  readFileSync(new URL('../../libs/nestjs-locked/package.json', import.meta.url), 'utf8'),
);

/** The web address of the repository, without a slash at its end, or undefined. */
export const REPOSITORY = webAddress(typeof repository === 'string' ? repository : repository?.url);

/** What the site says about the version that it describes: 0.0.0 stands for the time before the first one. */
export const VERSION = version === '0.0.0' ? 'Not released' : `Version ${version}`;

/** Where a folder of the repository runs in the browser. */
const PLAYGROUND = 'examples/playground';

/** Turns links that leave docs/ into links to the repository. */
export function linksOut(markdown) {
  markdown.core.ruler.push('links-out', (state) => {
    for (const { children } of state.tokens) {
      let isDropped = false;
      for (const token of children ?? []) {
        if (token.type === 'link_open') {
          const target = targetOutside(state.env.relativePath ?? '', token.attrGet('href') ?? '');
          isDropped = target !== undefined && REPOSITORY === undefined;
          if (target === undefined) continue;
          if (!isDropped) token.attrSet('href', addressOf(target));
        }
        if (isDropped && /^link_/.test(token.type)) {
          token.type = 'text';
          token.content = '';
        }
      }
    }
  });
}

function addressOf(target) {
  if (target !== PLAYGROUND) return `${REPOSITORY}/blob/main/${target}`;
  return `https://stackblitz.com/github/${new URL(REPOSITORY).pathname.slice(1)}/tree/main/${target}`;
}

/** The path in the repository of what a page links to, undefined if that is a page or on the web. */
function targetOutside(page, href) {
  if (/^(?:[a-z]+:|#|\/)/i.test(href)) return undefined;
  const path = posix.join('docs', posix.dirname(page), href);
  return path.startsWith('docs/') ? undefined : path;
}

function webAddress(url) {
  return url?.replace(/^git\+/, '').replace(/\.git$/, '');
}
