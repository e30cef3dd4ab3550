/**
 * Refuses to pack the library while the address of its repository is a placeholder, or what follows from it was not
 * written. npm runs this before `npm pack` and `npm publish`; tests pack without it, with `--ignore-scripts`.
 */
import { readFileSync } from 'node:fs';
import { PACKAGE_FILE, textsThatFollow } from './package/published-readme.mjs';

const PLACEHOLDER = 'OWNER';

const { repository } = JSON.parse(readFileSync(PACKAGE_FILE, 'utf8'));
const isUnset = repository.url.split('/').includes(PLACEHOLDER);
const texts = await textsThatFollow();
const follows = texts.every(([file, text]) => readFileSync(file, 'utf8') === text);

if (isUnset || !follows) {
  const wrong = isUnset
    ? `repository.url has the placeholder ${PLACEHOLDER}: write the address of the repository there, and`
    : 'homepage, bugs or the links of README.md do not follow from repository.url:';
  console.error(
    `Cannot pack nestjs-locked: in libs/nestjs-locked/package.json, ${wrong} run npm run package:links`,
  );
  process.exitCode = 1;
}
