import { newestResults } from 'kit';
import { format, resolveConfig } from 'prettier';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installedPackage, OURS } from '../packages.js';
import type { Results } from '../results.js';
import { pageWith } from './page.js';

const RESULTS = fileURLToPath(new URL('../../results/', import.meta.url));
/** What the user reads first, and what each scenario has shown. */
export const PAGES = ['docs/comparison.md', 'docs/comparison/results.md'].map((page) =>
  fileURLToPath(new URL(`../../../../${page}`, import.meta.url)),
);

/** @returns the paths that were written */
export async function writeResults(results: Results): Promise<string[]> {
  const file = resultsFile();
  const options = { ...(await resolveConfig(file)), filepath: file };
  writeFileSync(file, await format(JSON.stringify(results, null, 2), options));
  return [file, ...(await writePages(results))];
}

export async function writePages(results: Results): Promise<string[]> {
  for (const page of PAGES) {
    writeFileSync(page, await pageWith(results, readFileSync(page, 'utf8'), page));
  }
  return PAGES;
}

/** Those of the highest version that has some: the next version has none yet. */
export function readResults(): Results {
  const results = newestResults<Results>(RESULTS);
  if (results === undefined) throw new Error(`There are no results in ${RESULTS}`);
  return results;
}

/** Named after our version, whose results they are. */
function resultsFile(): string {
  return join(RESULTS, `${installedPackage(OURS).version}.json`);
}
