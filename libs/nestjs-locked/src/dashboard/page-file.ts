import { createHash } from 'node:crypto';
import { PAGE_CSS, PAGE_HTML, PAGE_JS } from './page-texts.js';

/** A file that the browser may keep as long as it asks whether there is another one. */
export interface PageFile {
  readonly type: string;
  readonly text: string;
  readonly etag: string;
}

const CSS = fileOf('text/css; charset=utf-8', PAGE_CSS);
const JS = fileOf('text/javascript; charset=utf-8', PAGE_JS);

/**
 * @param name any other than those of the files stands for the page itself
 * @param query of the request for it, in which there may be a token: the page asks for its files with the same one
 */
export function pageFile(name: string, query: URLSearchParams): PageFile {
  if (name === 'page.css') return CSS;
  if (name === 'page.js') return JS;
  const parameters = escaped(query.size === 0 ? '' : `?${query.toString()}`);
  return fileOf(
    'text/html; charset=utf-8',
    PAGE_HTML.replaceAll('?query', () => parameters),
  );
}

function fileOf(type: string, text: string): PageFile {
  const hash = createHash('sha256').update(text).digest('base64url');
  return { type, text, etag: `"${hash}"` };
}

/** What has been encoded as parameters has no other character that HTML would take for its own. */
function escaped(parameters: string): string {
  return parameters.replaceAll('&', '&amp;');
}
