/**
 * Writes the README that npm shows, and the addresses in package.json that follow from `repository.url`. Nothing ready
 * does both; `test/api/published-readme.spec.ts` checks that it was done.
 *
 *     npm run package:links
 */
import { writeFileSync } from 'node:fs';
import { PACKAGE_FILE, packageJson, readme, README_FILE } from './package/published-readme.mjs';

writeFileSync(PACKAGE_FILE, await packageJson());
writeFileSync(README_FILE, await readme());
