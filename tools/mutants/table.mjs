/** Reads the table of mutants: the files in `table/`, one for each room of the library. README.md shows the format. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MutantError } from './mutate.mjs';

const SOURCES = 'libs/nestjs-locked/src/';
const LEVELS = ['a source', 'a rule', 'a change'];

/**
 * @typedef {object} Mutant
 * @property {string} file the source, from the root of the tree
 * @property {string[]} specs the spec files that are to see it, or their folder
 * @property {string} rule what does not hold any more
 * @property {string} change as it is written in the table: what it is called
 * @property {string} in the name of the declaration that is changed
 * @property {string} from the pattern of what is replaced
 * @property {string} to what takes its place
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
  let path = [];
  for (const { number, indent, line } of linesOf(text)) {
    const fail = (why) => {
      throw new MutantError(`${where}:${number}: ${why}`);
    };
    const level = indent / 2;
    if (LEVELS[level] === undefined) fail('indent by 0, 2 or 4 spaces');
    if (level > path.length) fail(`${LEVELS[path.length]} must stand above ${LEVELS[level]}`);
    path = [...path.slice(0, level), line];
    if (level < 2) continue;
    const [file, heading] = path;
    const { rule, specs } =
      /^(?<rule>.+) \[(?<specs>.+)\]$/.exec(heading)?.groups ??
      fail('a rule is followed by the specs that guard it, in brackets');
    const torture = /^torture: (.*)$/.exec(line)?.[1];
    if (torture === undefined) {
      const change = changeOf(line) ?? fail('a change is `declaration: old ==> new`');
      const guards = specs.split(', ').map(specOf);
      mutants.push({
        file: SOURCES + file,
        rule,
        specs: guards,
        change: line,
        ...change,
        torture: [],
      });
    } else {
      (mutants.at(-1) ?? fail('torture stands below its change')).torture.push(torture);
    }
  }
  return mutants;
}

/** The lines that count. What is indented by six spaces goes on. */
function linesOf(text) {
  const lines = [];
  for (const [i, whole] of text.split('\n').entries()) {
    const line = whole.trim();
    const indent = whole.search(/\S/);
    if (line === '' || line.startsWith('# ')) continue;
    if (indent === 6 && lines.length > 0) lines.at(-1).line += ` ${line}`;
    else lines.push({ number: i + 1, indent, line });
  }
  return lines;
}

/** A file that ends like nearly all of them is written without its end; a folder ends with a slash. */
function specOf(name) {
  return /(\/|\.ts)$/.test(name) ? `test/${name}` : `test/${name}.spec.ts`;
}

function changeOf(line) {
  const groups = /^(?<in>\S+): (?<from>.+?) ==>(?: (?<to>.*))?$/.exec(line)?.groups;
  return groups && { in: groups.in, from: groups.from, to: groups.to ?? '' };
}
