/** Puts a mutant into a source. The mutation tools choose theirs by grammar; ours are chosen by rule, Lua included. */
import ts from 'typescript';

/** A mutant whose text is not there any more, or more than once: the table has to follow the source. */
export class MutantError extends Error {
  name = 'MutantError';
}

/**
 * Replaces the text of a mutant in its source.
 *
 * @param mutant `from` and `to` are the exact texts; `after`, if given, is a text that stands once in the file, and
 * the first `from` behind it is meant
 * @throws MutantError that says what to do
 */
export function mutate(source, { name, file, from, to, after }) {
  const start = after === undefined ? 0 : positionOf(source, after, name, file);
  const rest = source.slice(start);
  if (after === undefined) positionOf(source, from, name, file);
  const at = rest.indexOf(from);
  if (at === -1) {
    throw new MutantError(
      `${name}: ${quoted(from)} does not stand behind ${quoted(after)} in ${file}; find what became of it, and change the table`,
    );
  }
  if (from === to) throw new MutantError(`${name}: it changes nothing`);
  return source.slice(0, start + at) + to + rest.slice(at + from.length);
}

/** Whatever is no program is killed by anything, and says nothing. @throws MutantError */
export function assertIsProgram(text, { name, file }) {
  const { diagnostics } = ts.transpileModule(text, {
    compilerOptions: { target: ts.ScriptTarget.ESNext, experimentalDecorators: true },
    fileName: file,
    reportDiagnostics: true,
  });
  if (diagnostics.length === 0) return;
  const reason = ts.flattenDiagnosticMessageText(diagnostics[0].messageText, ' ');
  throw new MutantError(`${name}: ${file} cannot be compiled any more: ${reason}`);
}

/** Where the text stands, once and only once. */
function positionOf(source, text, name, file) {
  const at = source.indexOf(text);
  if (at === -1) {
    throw new MutantError(
      `${name}: ${quoted(text)} is not in ${file} any more; find what became of it, and change the table`,
    );
  }
  if (source.includes(text, at + 1)) {
    throw new MutantError(
      `${name}: ${quoted(text)} stands more than once in ${file}; say with \`after\` which one is meant`,
    );
  }
  return at;
}

function quoted(text) {
  return JSON.stringify(text);
}
