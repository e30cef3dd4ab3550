import { nameFrom, textTable, wholeNumberFrom } from 'kit';
import { parseArgs } from 'node:util';
import { BOUNDS, BOUNDS_NAMES } from './bounds.js';
import { explore } from './explore.js';
import { MUTANTS } from './mutants.js';
import { type Rule, RULES } from './rules.js';

const USAGE = `The protocol, explored within bounds. Exit code: 0 if nothing was found.

npm run spec -- [--states N] [--within '${BOUNDS_NAMES.join("' | '")}']
npm run spec -- --without '<rule>'    switches a rule off, and shows the shortest way to what it prevents

Rules:
${Object.entries(RULES)
  .map(([rule, text]) => `  ${rule}: ${text}`)
  .join('\n')}`;

/** @returns whether nothing was found */
function exploreAll(args: readonly string[]): boolean {
  const { values } = parseArgs({
    args: [...args],
    options: {
      states: { type: 'string', default: '40000' },
      within: { type: 'string' },
      without: { type: 'string' },
    },
  });
  const mostStates = wholeNumberFrom('states', values.states, 1);
  const broken =
    values.without && nameFrom('without', values.without, Object.keys(RULES) as readonly Rule[]);
  const within =
    broken === undefined ? values.within : (values.within ?? MUTANTS[broken as Rule][0]);
  const names = within === undefined ? BOUNDS_NAMES : [nameFrom('within', within, BOUNDS_NAMES)];
  const rows = [['within', 'states', 'every history of', 'longest wait']];
  for (const name of names) {
    const { states, depth, longestWait, found } = explore(BOUNDS[name], mostStates, broken as Rule);
    if (found !== undefined) {
      console.log(`${name}: not '${found.invariant}':`);
      found.trace.forEach((step, i) => console.log(`${String(i + 1).padStart(4)}  ${step}`));
      return false;
    }
    const extent = depth === Infinity ? 'any length' : `up to ${depth} steps`;
    rows.push([name, String(states), extent, `${longestWait} ticks`]);
  }
  console.log(textTable(rows));
  return true;
}

try {
  process.exitCode = exploreAll(process.argv.slice(2)) ? 0 : 1;
} catch (error) {
  console.error(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
  process.exitCode = 2;
}
