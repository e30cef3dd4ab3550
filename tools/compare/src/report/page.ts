import { format, resolveConfig } from 'prettier';
import type { Results } from '../results.js';
import { details, resultsTable, usualSettings, versions } from './table.js';

/** The page with the parts that are generated written again; the prose between them stays. */
export async function pageWith(results: Results, page: string, path: string): Promise<string> {
  const { date, node, redis, nest } = results;
  const parts = {
    table: resultsTable(results),
    versions: `Run on ${date} with Node ${node}, Redis ${redis}, Nest ${nest}, ${versions(results)}.`,
    settings: usualSettings(results),
    details: details(results),
  };
  const written = Object.entries(parts).reduce(
    (text, [name, part]) => replacePart(text, name, part),
    page,
  );
  return format(written, { ...(await resolveConfig(path)), filepath: path });
}

function replacePart(page: string, name: string, part: string): string {
  const [begin, end] = [`<!-- ${name}: written by npm run compare -->`, `<!-- end of ${name} -->`];
  const [before, rest] = page.split(begin);
  const after = rest?.split(end)[1];
  if (before === undefined || after === undefined) throw new Error(`The page has no '${begin}'`);
  return `${before}${begin}\n\n${part}\n\n${end}${after}`;
}
