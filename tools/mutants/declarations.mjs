/** Reads a source as a mutant sees it: by its declarations, and without comments, white space and trailing commas. */
import ts from 'typescript';

/** @typedef {{ name: string, code: string, positions: number[] }} Declaration what stands at `positions` in the file */

/**
 * The functions, constants and classes of a module, and apart from them the members of the classes, as `Class.member`.
 * A script of Lua is the constant or the function that holds it.
 *
 * @returns {Declaration[]} a name may occur twice: a getter and its setter, or the overloads of a function
 */
export function declarationsOf(source, file) {
  // Mutants of one file follow each other in the table.
  if (last?.source !== source || last.file !== file) {
    last = { source, file, declarations: readDeclarations(source, file) };
  }
  return last.declarations;
}

let last;

function readDeclarations(source, file) {
  const parsed = ts.createSourceFile(file, source, ts.ScriptTarget.ESNext, true);
  return parsed.statements.flatMap(namedNodes).map(({ name, node }) => {
    const positions = codePositions(node, parsed, file.endsWith('.lua.ts'));
    return { name, positions, code: positions.map((at) => source[at]).join('') };
  });
}

/** The text of a pattern as `declarationsOf` gives the text of a declaration. */
export function codeOf(pattern) {
  return pattern.replace(/\s+/g, '').replace(/,(?=[)\]}])/g, '');
}

function namedNodes(statement) {
  if (ts.isVariableStatement(statement)) {
    return statement.declarationList.declarations.map(({ name }) => ({
      name: name.getText(),
      node: statement,
    }));
  }
  const name = statement.name?.text ?? statement.moduleSpecifier?.text;
  if (name === undefined) return [];
  if (!ts.isClassDeclaration(statement)) return [{ name, node: statement }];
  const members = statement.members.map((node) => ({
    name: `${name}.${ts.isConstructorDeclaration(node) ? 'constructor' : node.name?.getText()}`,
    node,
  }));
  return [{ name, node: statement }, ...members];
}

/** Where the characters of a node stand that are neither comments nor white space nor trailing commas. */
function codePositions(node, parsed, hasLua) {
  const positions = [];
  for (const token of tokensOf(node, parsed)) {
    const start = token.getStart(parsed);
    const text = parsed.text.slice(start, token.end);
    if (/^[)\]}]/.test(text) && parsed.text[positions.at(-1)] === ',') positions.pop();
    const isScript = hasLua && text.includes('\n');
    const code = isScript ? text.replace(/--.*/g, (comment) => ' '.repeat(comment.length)) : text;
    for (let i = 0; i < code.length; i++) if (!/\s/.test(code[i])) positions.push(start + i);
  }
  return positions;
}

function tokensOf(node, parsed) {
  if (ts.isJSDoc(node)) return [];
  const children = node.getChildren(parsed);
  return children.length === 0 ? [node] : children.flatMap((child) => tokensOf(child, parsed));
}
