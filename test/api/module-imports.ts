import ts from 'typescript';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';

export interface Import {
  readonly specifier: string;
  /** Gone after compilation: `import type`, or a type such as `import('x').Y`. */
  readonly isTypeOnly: boolean;
}

/** A source file: its path below the folder that was read, with `/`, and what it imports. */
export interface SourceModule {
  readonly path: string;
  readonly imports: readonly Import[];
}

/** Reads all TypeScript files below a folder. */
export function readModules(folder: string): SourceModule[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => readModule(folder, path.split(sep).join('/')));
}

export function readModule(folder: string, path: string): SourceModule {
  return { path, imports: importsOf(readFileSync(join(folder, path), 'utf8')) };
}

/** Every way to import: `import`, `export … from`, `import()`, `require()` and types of `import('…')`. */
export function importsOf(source: string): Import[] {
  const file = ts.createSourceFile('module.ts', source, ts.ScriptTarget.Latest, true);
  const imports: Import[] = [];
  const add = (node: ts.Node | undefined, isTypeOnly: boolean): void => {
    if (node !== undefined && ts.isStringLiteralLike(node)) {
      imports.push({ specifier: node.text, isTypeOnly });
    }
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) {
      add(node.moduleSpecifier, node.importClause?.isTypeOnly === true);
    } else if (ts.isExportDeclaration(node)) {
      add(node.moduleSpecifier, node.isTypeOnly);
    } else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
      add(node.argument.literal, true);
    } else if (ts.isCallExpression(node) && isImportCall(node.expression)) {
      add(node.arguments[0], false);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return imports;
}

function isImportCall(called: ts.Expression): boolean {
  return (
    called.kind === ts.SyntaxKind.ImportKeyword ||
    (ts.isIdentifier(called) && called.text === 'require')
  );
}

/** The path that a relative import of a module leads to, below the same folder; undefined for packages. */
export function targetOf(module: SourceModule, { specifier }: Import): string | undefined {
  if (!specifier.startsWith('.')) return undefined;
  const path = relative('/', join('/', dirname(module.path), specifier));
  return path.split(sep).join('/').replace(/\.js$/, '.ts');
}

/** The name of the package that an import asks for: `@nestjs/common`, `node:fs`; undefined for relative ones. */
export function packageOf({ specifier }: Import): string | undefined {
  if (specifier.startsWith('.')) return undefined;
  if (specifier.startsWith('node:')) return specifier;
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

/** One path of imports that leads back to where it began, or undefined. */
export function findCycle(edges: ReadonlyMap<string, ReadonlySet<string>>): string[] | undefined {
  const finished = new Set<string>();
  const walk = (node: string, path: string[]): string[] | undefined => {
    if (path.includes(node)) return [...path.slice(path.indexOf(node)), node];
    if (finished.has(node)) return undefined;
    for (const next of edges.get(node) ?? []) {
      const cycle = walk(next, [...path, node]);
      if (cycle !== undefined) return cycle;
    }
    finished.add(node);
    return undefined;
  };
  for (const node of edges.keys()) {
    const cycle = walk(node, []);
    if (cycle !== undefined) return cycle;
  }
  return undefined;
}
