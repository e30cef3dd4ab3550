/** Reads the table of mutants: the files in `table/`, one for each room of the library. README.md shows the format. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MutantError } from './mutate.mjs';

const SOURCES = 'libs/nestjs-locked/src/';

/**
 * @typedef {object} Mutant
 * @property {string} name
 * @property {string} file the source, from the root of the tree
 * @property {string} in the name of the declaration that is changed
 * @property {string} from the pattern of what is replaced
 * @property {string} to what takes its place
 * @property {string} breaks the rule that does not hold any more
 * @property {string[]} specs the spec files that are to see it, or their folder
 * @property {string[]} torture commands of which one is to see it within three seeds
 */

/** @returns {Mutant[]} */
export function readTable() {
  const folder = fileURLToPath(new URL('table', import.meta.url));
  const files = readdirSync(folder, { recursive: true }).filter((file) => file.endsWith('.txt'));
  return files
    .sort()
    .flatMap((file) => parseTable(readFileSync(join(folder, file), 'utf8'), `table/${file}`));
}

/** @param {string} where names the text in messages. @returns {Mutant[]} @throws MutantError */
export function parseTable(text, where) {
  const mutants = [];
  let file;
  let specs = [];
  for (const [number, line] of joinContinued(text)) {
    const fail = (why) => {
      throw new MutantError(`${where}:${number}: ${why}`);
    };
    const { indent, key, value } = /^(?<indent> *)(?:(?<key>\S+): )?(?<value>.*)$/.exec(
      line,
    ).groups;
    if (indent !== '') {
      if (key === undefined) fail('an indented line begins with a word and a colon');
      const mutant = mutants.at(-1) ?? fail('a mutant begins with its name, which is not indented');
      if (key === 'breaks') mutant.breaks = value;
      else if (key === 'torture') mutant.torture.push(value);
      else Object.assign(mutant, { in: key }, changeOf(value) ?? fail('a change is `old ==> new`'));
    } else if (key === 'file') {
      file = SOURCES + value;
      specs = [];
    } else if (key === 'specs') {
      specs = value.split(/\s+/);
    } else {
      if (file === undefined) fail('the first line that counts names a file');
      mutants.push({ name: line, file, specs, torture: [] });
    }
  }
  for (const { name, in: place, breaks } of mutants) {
    if (place === undefined || breaks === undefined) {
      throw new MutantError(`${where}: ${name}: say what it changes and what it breaks`);
    }
  }
  return mutants;
}

/** The lines that count, with their numbers. What is indented by four spaces or more goes on. */
function joinContinued(text) {
  const lines = [];
  for (const [i, line] of text.split('\n').entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue;
    if (line.startsWith('    ')) lines.at(-1)[1] += ` ${line.trim()}`;
    else lines.push([i + 1, line]);
  }
  return lines;
}

function changeOf(text) {
  const change = /^(?<from>.+?) ==>(?: (?<to>.*))?$/.exec(text)?.groups;
  return change && { from: change.from, to: change.to ?? '' };
}
