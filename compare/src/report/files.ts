import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { installedPackage } from '../packages.js';
import type { Results } from '../results.js';
import { OURS } from '../run-side.js';
import { pageWith } from './page.js';

const PAGE = fileURLToPath(new URL('../../../docs/comparison.md', import.meta.url));

/** @returns the paths that were written */
export async function writeResults(results: Results): Promise<string[]> {
  writeFileSync(resultsFile(), `${JSON.stringify(results, null, 2)}\n`);
  return [resultsFile(), await writePage(results)];
}

export async function writePage(results: Results): Promise<string> {
  writeFileSync(PAGE, await pageWith(results, readFileSync(PAGE, 'utf8'), PAGE));
  return PAGE;
}

export function readResults(): Results {
  return JSON.parse(readFileSync(resultsFile(), 'utf8')) as Results;
}

/** Named after our version, whose results they are. */
function resultsFile(): string {
  const { version } = installedPackage(OURS);
  return fileURLToPath(new URL(`../../results/${version}.json`, import.meta.url));
}
