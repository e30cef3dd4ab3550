import { format, resolveConfig } from 'prettier';
import type { Results } from '../results.js';
import {
  choicesTable,
  details,
  packagesTable,
  resultsTable,
  usualSettings,
  versions,
} from './table.js';

/** A page with the parts that are generated written again; the prose between them stays. */
export async function pageWith(results: Results, page: string, path: string): Promise<string> {
  const { date, node, redis, nest, notPlayed } = results;
  const left = notPlayed.map((name) => `\`${name}\``).join(', ');
  const unknown = left === '' ? '' : ` Not played yet, so nothing is known of them: ${left}.`;
  const parts = new Map([
    ['table', resultsTable(results)],
    ['choices', choicesTable(results)],
    [
      'versions',
      `Run on ${date} with Node ${node}, Redis ${redis}, Nest ${nest}, ${versions(results)}.${unknown}`,
    ],
    ['packages', packagesTable(results)],
    ['settings', usualSettings(results)],
    ['details', details(results)],
  ]);
  const written = page.replaceAll(PART, (_, begin: string, name: string, end: string) => {
    const part = parts.get(name);
    if (part === undefined) throw new Error(`${path} wants '${name}', which npm run compare lacks`);
    return `${begin}\n\n${part}\n\n${end}`;
  });
  return format(written, { ...(await resolveConfig(path)), filepath: path });
}

/** What stands between `<!-- name: written by npm run compare -->` and `<!-- end of name -->`. */
const PART = /(<!-- (\w+): written by npm run compare -->)[^]*?(<!-- end of \2 -->)/g;
