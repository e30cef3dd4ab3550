import { newestResults } from 'kit';
import { format, resolveConfig } from 'prettier';
import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Results } from '../results.js';
import { chartsOf } from './charts.js';
import { documentOf, figuresOf } from './document.js';

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url));
const RESULTS = join(ROOT, 'tools/bench/results');
const DOCS = join(ROOT, 'docs');
const LATEST = 'latest.json';

/** The numbers of the run that was last, in a file that Git ignores. @returns its path */
export async function writeLatest(results: Results, path = join(RESULTS, LATEST)) {
  return write(path, await textOf(path, results));
}

/** The numbers of a version, its pages and their pictures, as they are committed. @returns the paths of the files */
export async function writeRelease(results: Results): Promise<string[]> {
  const path = join(RESULTS, `${results.version}.json`);
  return [await write(path, await textOf(path, results)), ...(await writePages(results))];
}

export async function writePages(results: Results): Promise<string[]> {
  const pages = await pagesOf(results);
  return Promise.all([...pages].map(([path, text]) => write(path, text)));
}

/** The pages and their pictures, by the path of the file. */
export async function pagesOf(results: Results): Promise<Map<string, string>> {
  const page = join(DOCS, 'benchmarks.md');
  const figures = join(DOCS, 'benchmarks/results.md');
  return new Map([
    [page, await formatted(page, documentOf(results))],
    [figures, await formatted(figures, figuresOf(results))],
    ...[...chartsOf(results)].map(
      ([name, svg]) => [join(DOCS, 'benchmarks', name), svg] as [string, string],
    ),
  ]);
}

/** The numbers of the highest version that has some. */
export function readRelease(): Results {
  const newest = newestResults<Results>(RESULTS);
  if (newest === undefined) throw new Error('tools/bench/results has no numbers of a release');
  return newest;
}

/** Five digits, which is more than the noise of any machine leaves. */
function textOf(path: string, results: Results): Promise<string> {
  const text = JSON.stringify(results, (_key, value: unknown) =>
    typeof value === 'number' ? Number(value.toPrecision(5)) : value,
  );
  return formatted(path, text);
}

async function write(path: string, text: string): Promise<string> {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
}

/** The repository has one format for all of its files. */
async function formatted(path: string, text: string): Promise<string> {
  const options = await resolveConfig(path);
  return format(text, { ...options, filepath: basename(path) });
}
