/** Puts a mutant into a source. The mutation tools choose theirs by grammar; ours are chosen by rule, Lua included. */
import ts from 'typescript';
import { codeOf, declarationsOf } from './declarations.mjs';

/** A mutant that does not fit its source: the table has to follow the source. */
export class MutantError extends Error {
  name = 'MutantError';
}

/** In a pattern: whatever stands between the part before it and the next place of the part behind it. */
const GAP = ' ... ';

/**
 * Replaces what the pattern of a mutant stands for in its declaration. Comments and white space do not count.
 *
 * @param {Pick<import('./table.mjs').Mutant, 'change' | 'file' | 'in' | 'from' | 'to'>} mutant
 * @throws MutantError that says what to do
 */
export function mutate(source, mutant) {
  const { change, file, from, to } = mutant;
  if (codeOf(from) === codeOf(to)) throw new MutantError(`${change}: it changes nothing`);
  const declarations = declarationsOf(source, file).filter(({ name }) => name === mutant.in);
  const places = placesOf(from, declarations);
  if (places.length === 1) {
    const [{ start, end }] = places;
    return source.slice(0, start) + to + source.slice(end);
  }
  if (places.length > 1) {
    throw new MutantError(
      `${change}: ${quoted(from)} stands ${places.length} times in ${mutant.in} of ${file}; lengthen it until it is the only one`,
    );
  }
  const missing = declarations.length === 0 ? mutant.in : `${quoted(from)} in ${mutant.in}`;
  const others = fittingDeclarations(source, file, from);
  const advice =
    others.length === 0
      ? 'find what became of it, and change the table'
      : `it stands in ${others.join(', ')}`;
  throw new MutantError(`${change}: there is no ${missing} of ${file}; ${advice}`);
}

/** The names of the declarations in which the pattern stands once. A class is named only if none of its members is. */
export function fittingDeclarations(source, file, from) {
  const names = declarationsOf(source, file)
    .filter((declaration) => placesOf(from, [declaration]).length === 1)
    .map(({ name }) => name);
  return names.filter((name) => !names.some((other) => other.startsWith(`${name}.`)));
}

/** Whatever is no program is killed by anything, and says nothing. @throws MutantError */
export function assertIsProgram(text, { change, file }) {
  // What the compiler itself reads of it; nothing public has it without emitting the program, which takes far longer.
  const { parseDiagnostics } = ts.createSourceFile(file, text, ts.ScriptTarget.ESNext);
  if (parseDiagnostics.length === 0) return;
  const reason = ts.flattenDiagnosticMessageText(parseDiagnostics[0].messageText, ' ');
  throw new MutantError(`${change}: ${file} cannot be compiled any more: ${reason}`);
}

/** All places, overlapping ones as well. */
function placesOf(pattern, declarations) {
  const parts = pattern.split(GAP).map((part) => escaped(codeOf(part)));
  const matcher = new RegExp(`(?=(${parts.join('.*?')}))`, 'gs');
  return declarations.flatMap(({ code, positions }) =>
    [...code.matchAll(matcher)].map(({ index, 1: text }) => ({
      start: positions[index],
      end: positions[index + text.length - 1] + 1,
    })),
  );
}

function escaped(text) {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}

function quoted(text) {
  return JSON.stringify(text);
}
