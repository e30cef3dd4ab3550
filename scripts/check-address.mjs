/**
 * Refuses to pack the library while the address of its repository is a placeholder, or what follows from it was not
 * written. npm runs this before `npm pack` and `npm publish`; tests pack without it, with `--ignore-scripts`.
 */
import { readFileSync } from 'node:fs';
import {
  CODEMOD_FILE,
  codemodJson,
  PACKAGE_FILE,
  packageJson,
  readme,
  README_FILE,
} from './package/published-readme.mjs';

const PLACEHOLDER = 'OWNER';

const { repository } = JSON.parse(readFileSync(PACKAGE_FILE, 'utf8'));
const isUnset = repository.url.split('/').includes(PLACEHOLDER);
const follows =
  readFileSync(PACKAGE_FILE, 'utf8') === (await packageJson()) &&
  readFileSync(CODEMOD_FILE, 'utf8') === (await codemodJson()) &&
  readFileSync(README_FILE, 'utf8') === (await readme());

if (isUnset || !follows) {
  const wrong = isUnset
    ? `repository.url has the placeholder ${PLACEHOLDER}: write the address of the repository there, and`
    : 'homepage, bugs or README.md do not follow from repository.url:';
  console.error(
    `Cannot pack nestjs-locked: in libs/nestjs-locked/package.json, ${wrong} run npm run package:links`,
  );
  process.exitCode = 1;
}
