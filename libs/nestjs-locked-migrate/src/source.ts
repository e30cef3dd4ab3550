import ts from 'typescript';
import { Edits } from './edits.js';
import { type OldLibrary, oldNameAt } from './old-names.js';

/**
 * What happened to a place: it was `changed`; it was changed, but `check` what the new lock does there; or it was
 * `left` to you.
 */
export type Outcome = 'changed' | 'check' | 'left';

export interface Finding {
  readonly outcome: Outcome;
  readonly file: string;
  readonly line: number;
  readonly library: OldLibrary;
  readonly text: string;
}

const PACKAGE = 'nestjs-locked';
/** Names without a value: compilers of single files have to be told. */
const TYPES: readonly string[] = ['Lock', 'RedisLockModuleOptions'];

/** One file while it is rewritten. */
export class Source {
  readonly findings: Finding[] = [];
  readonly #edits = new Edits();
  /** Names to import: what they are called in the package, and here. */
  readonly #imports = new Map<string, string>();

  constructor(
    readonly file: ts.SourceFile,
    readonly checker: ts.TypeChecker,
  ) {}

  get isChanged(): boolean {
    return !this.#edits.isEmpty;
  }

  /** The text of a node, without the comments above it. */
  textOf(node: ts.Node): string {
    return node.getText(this.file);
  }

  replace(node: ts.Node, text: string): void {
    this.#edits.replace(node.getStart(this.file), node.end, text);
  }

  replaceRange(start: number, end: number, text: string): void {
    this.#edits.replace(start, end, text);
  }

  /** Replaces the arguments up to `last`, which stays where it is: on a line of its own, or not. */
  replaceArguments(first: ts.Expression, last: ts.Expression, texts: readonly string[]): void {
    const [start, end] = [first.getStart(this.file), last.getStart(this.file)];
    const gap = this.file.text.slice(this.file.text.lastIndexOf(',', end - 1) + 1, end);
    const between = /^\s+$/.test(gap) ? gap : ' ';
    this.replaceRange(start, end, [...texts, ''].join(`,${between}`));
  }

  insert(position: number, text: string): void {
    this.#edits.replace(position, position, text);
  }

  /** Removes a node, and its line if nothing else is on it. */
  remove(node: ts.Node, start = node.getStart(this.file), end = node.end): void {
    const { text } = this.file;
    const before = text.lastIndexOf('\n', start - 1) + 1;
    const rest = /^[ \t]*\r?\n/.exec(text.slice(end));
    const isAlone = text.slice(before, start).trim() === '' && rest !== null;
    this.#edits.replace(
      isAlone ? before : start,
      isAlone ? end + rest[0].length : end + (/^ +/.exec(text.slice(end))?.[0].length ?? 0),
      '',
    );
  }

  /** Whether a replacement removes this node. */
  isReplaced(node: ts.Node): boolean {
    return this.#edits.covers(node.getStart(this.file));
  }

  tell(outcome: Outcome, library: OldLibrary, node: ts.Node, text: string): void {
    const { line } = this.file.getLineAndCharacterOfPosition(node.getStart(this.file));
    this.findings.push({ outcome, file: this.file.fileName, line: line + 1, library, text });
  }

  /** Imports a name of nestjs-locked. @returns what it is called in this file */
  use(name: string): string {
    const known = this.#imports.get(name);
    if (known !== undefined) return known;
    const imported = this.#importsOf(PACKAGE)
      .flatMap(elementsOf)
      .find((element) => (element.propertyName ?? element.name).text === name);
    if (imported !== undefined) return imported.name.text;
    const local = this.#isTaken(name) ? `Redis${name}` : name;
    this.#imports.set(name, local);
    return local;
  }

  /** The file as it is to be: with the imports that are needed, and without those that no longer are. */
  result(): string {
    const left = new Set(this.leftNames().map(({ text }) => text));
    const ours = this.#ourImport();
    let place =
      ours === undefined ? undefined : this.file.statements.filter(ts.isImportDeclaration).at(-1);
    let isWritten = ours === undefined;
    for (const old of this.#importsOf('murlock', 'redlock', '@sesamecare-oss/redlock')) {
      if (old.importClause === undefined) continue;
      const names = namesOf(old.importClause);
      const kept = names.filter(({ local }) => left.has(local));
      if (kept.length === names.length) {
        place = old;
      } else if (kept.length > 0) {
        this.replace(old.importClause, clauseOf(old.importClause, kept));
        place = old;
      } else if (isWritten) {
        this.remove(old);
      } else {
        this.replace(old, ours ?? '');
        isWritten = true;
      }
    }
    if (!isWritten) this.insert(place?.end ?? 0, place ? `\n${ours}` : `${ours}\n`);
    return this.#edits.applyTo(this.file.text);
  }

  /** Identifiers that still stand for a name of an old library, other than in an import. */
  leftNames(): ts.Identifier[] {
    const found: ts.Identifier[] = [];
    const visit = (node: ts.Node): void => {
      if (ts.isImportDeclaration(node)) return;
      if (ts.isIdentifier(node) && !this.isReplaced(node) && oldNameAt(this.checker, node)) {
        found.push(node);
      }
      ts.forEachChild(node, visit);
    };
    visit(this.file);
    return found;
  }

  #isTaken(name: string): boolean {
    const inUse = (node: ts.Node): boolean =>
      (ts.isIdentifier(node) && node.text === name && !oldNameAt(this.checker, node)) ||
      (ts.forEachChild(node, inUse) ?? false);
    return inUse(this.file);
  }

  #importsOf(...specifiers: readonly string[]): ts.ImportDeclaration[] {
    return this.file.statements
      .filter(ts.isImportDeclaration)
      .filter(
        ({ moduleSpecifier }) =>
          ts.isStringLiteral(moduleSpecifier) && specifiers.includes(moduleSpecifier.text),
      );
  }

  /** The statement to add; undefined if there is nothing to import, or an import that it was added to. */
  #ourImport(): string | undefined {
    if (this.#imports.size === 0) return undefined;
    const specifiers = [...this.#imports]
      .sort(([a], [b]) => (a.toLowerCase() < b.toLowerCase() ? -1 : 1))
      .map(([name, local]) => (name === local ? name : `${name} as ${local}`))
      .map((text) => (TYPES.includes(text.split(' ')[0] ?? '') ? `type ${text}` : text));
    const [existing] = this.#importsOf(PACKAGE);
    if (existing !== undefined) {
      const elements = elementsOf(existing);
      const last = elements.at(-1);
      if (last !== undefined) {
        this.insert(last.end, `, ${specifiers.join(', ')}`);
        return undefined;
      }
    }
    const { text } = this.file;
    const quote = /from "/.test(text) && !/from '/.test(text) ? '"' : "'";
    const end = /from ['"][^'"]+['"]\r?\n/.test(text) ? '' : ';';
    return `import { ${specifiers.join(', ')} } from ${quote}${PACKAGE}${quote}${end}`;
  }
}

interface ImportedName {
  readonly local: string;
  readonly text: string;
  readonly isDefault: boolean;
}

function namesOf({ name, namedBindings }: ts.ImportClause): ImportedName[] {
  const names: ImportedName[] = [];
  if (name !== undefined) names.push({ local: name.text, text: name.text, isDefault: true });
  if (namedBindings === undefined) return names;
  if (ts.isNamespaceImport(namedBindings)) {
    const local = namedBindings.name.text;
    return [...names, { local, text: `* as ${local}`, isDefault: true }];
  }
  for (const element of namedBindings.elements) {
    names.push({ local: element.name.text, text: element.getText(), isDefault: false });
  }
  return names;
}

function clauseOf(clause: ts.ImportClause, kept: readonly ImportedName[]): string {
  const named = kept.filter(({ isDefault }) => !isDefault).map(({ text }) => text);
  const parts = kept.filter(({ isDefault }) => isDefault).map(({ text }) => text);
  if (named.length > 0) parts.push(`{ ${named.join(', ')} }`);
  return `${clause.isTypeOnly ? 'type ' : ''}${parts.join(', ')}`;
}

function elementsOf({ importClause }: ts.ImportDeclaration): readonly ts.ImportSpecifier[] {
  const bindings = importClause?.namedBindings;
  return bindings !== undefined && ts.isNamedImports(bindings) ? bindings.elements : [];
}
