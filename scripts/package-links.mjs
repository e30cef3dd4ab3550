/**
 * Writes the README that npm shows, and the addresses in package.json, SECURITY.md and of the playground that follow
 * from `repository.url`. Nothing ready does all of it; `test/projects/published-readme.spec.ts` checks that it was
 * done.
 *
 *     npm run package:links
 */
import { writeFileSync } from 'node:fs';
import { SECURITY_FILE, securityPolicy, textsThatFollow } from './package/published-readme.mjs';

for (const [file, text] of await textsThatFollow()) writeFileSync(file, text);
writeFileSync(SECURITY_FILE, await securityPolicy());
