/**
 * Writes the README that npm shows, and the addresses in package.json, SECURITY.md and of the playground that follow
 * from `repository.url`. Nothing ready does all of it; `test/projects/published-readme.spec.ts` checks that it was
 * done.
 *
 *     npm run package:links
 */
import { writeFileSync } from 'node:fs';
import {
  CODEMOD_FILE,
  codemodJson,
  PACKAGE_FILE,
  packageJson,
  PLAYGROUND_FILES,
  readme,
  README_FILE,
  SECURITY_FILE,
  securityPolicy,
  withPlayground,
} from './package/published-readme.mjs';

writeFileSync(PACKAGE_FILE, await packageJson());
writeFileSync(CODEMOD_FILE, await codemodJson());
for (const file of PLAYGROUND_FILES) writeFileSync(file, await withPlayground(file));
writeFileSync(README_FILE, await readme());
writeFileSync(SECURITY_FILE, await securityPolicy());
