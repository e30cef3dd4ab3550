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
const LATEST = 'latest.json';

/** The numbers of the run that was last, in a file that Git ignores. @returns its path */
export function writeLatest(results: Results, path = join(RESULTS, LATEST)): Promise<string> {
  return write(path, textOf(results));
}

/** The numbers of a version, its pages and their pictures, as they are committed. @returns the paths of the files */
export async function writeRelease(results: Results): Promise<string[]> {
  return [
    await write(join(RESULTS, `${results.version}.json`), textOf(results)),
    ...(await writePages(results)),
  ];
}

/** The pages and their pictures. @returns the paths of the files */
export async function writePages(results: Results): Promise<string[]> {
  const files = [
    await write(join(ROOT, 'docs/benchmarks.md'), documentOf(results)),
    await write(join(ROOT, 'docs/benchmarks/results.md'), figuresOf(results)),
  ];
  for (const [name, svg] of chartsOf(results)) {
    files.push(await write(join(ROOT, 'docs/benchmarks', name), svg));
  }
  return files;
}

/** The numbers of the highest version that has some. */
export function readRelease(folder = RESULTS): Results | undefined {
  return newestResults(folder);
}

/** Five digits, which is more than the noise of any machine leaves. */
function textOf(results: Results): string {
  return JSON.stringify(results, (_key, value: unknown) =>
    typeof value === 'number' ? Number(value.toPrecision(5)) : value,
  );
}

async function write(path: string, text: string): Promise<string> {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, path.endsWith('.svg') ? text : await formatted(path, text));
  return path;
}

/** The repository has one format for all of its files. */
async function formatted(path: string, text: string): Promise<string> {
  const options = await resolveConfig(path);
  return format(text, { ...options, filepath: basename(path) });
}
