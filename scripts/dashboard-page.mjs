/**
 * Writes the page of the dashboard into a module, as texts: so bundlers of applications need not know of files.
 * `npm run build` runs it before the compiler.
 */
import { buildSync } from 'esbuild';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const LIBRARY = fileURLToPath(new URL('../libs/nestjs-locked/', import.meta.url));

/** The module, as it must be. */
export function pageTexts() {
  const read = (name) => readFileSync(join(LIBRARY, 'page', name), 'utf8');
  const { outputFiles } = buildSync({
    entryPoints: [join(LIBRARY, 'page/page.ts')],
    bundle: true,
    write: false,
    platform: 'browser',
    format: 'esm',
    target: 'es2022',
    charset: 'utf8',
    minify: true,
  });
  const css = buildSync({
    stdin: { contents: read('page.css'), loader: 'css' },
    write: false,
    minify: true,
  });
  const texts = {
    PAGE_HTML: read('page.html').replace(/\n\s*/g, '\n'),
    PAGE_CSS: css.outputFiles[0].text,
    PAGE_JS: outputFiles[0].text,
  };
  const lines = Object.entries(texts).map(
    ([name, text]) => `export const ${name} =\n  ${JSON.stringify(text)};\n`,
  );
  return `// Made from libs/nestjs-locked/page by scripts/dashboard-page.mjs.\n${lines.join('')}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const path = join(LIBRARY, 'src/dashboard/page-texts.ts');
  const text = pageTexts();
  if (!existsSync(path) || readFileSync(path, 'utf8') !== text) writeFileSync(path, text);
}
