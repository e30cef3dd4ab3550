import ts from 'typescript';
import { basename, dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

export type OldLibrary = 'murlock' | 'redlock';

/** A name that one of the old libraries exports. */
export interface OldName {
  readonly library: OldLibrary;
  readonly name: string;
}

const DECLARATIONS = fileURLToPath(new URL('../declarations', import.meta.url));

const DECLARED: Readonly<Record<string, OldLibrary>> = {
  murlock: 'murlock',
  redlock: 'redlock',
  '@sesamecare-oss/redlock': 'redlock',
};

/** The declarations to read instead of those of an old library; undefined for any other module. */
export function declarationsOf(specifier: string): string | undefined {
  const library = DECLARED[specifier];
  return library === undefined ? undefined : `${DECLARATIONS}/${library}.d.ts`;
}

/** What an identifier names, if an old library exports it. */
export function oldNameAt(checker: ts.TypeChecker, node: ts.Node): OldName | undefined {
  const symbol = checker.getSymbolAtLocation(node);
  if (symbol === undefined) return undefined;
  return oldName(
    (symbol.flags & ts.SymbolFlags.Alias) === 0 ? symbol : checker.getAliasedSymbol(symbol),
  );
}

/** The class of an expression's value, if an old library exports it; null and undefined are left aside. */
export function oldTypeOf(checker: ts.TypeChecker, expression: ts.Node): OldName | undefined {
  const type = checker.getNonNullableType(checker.getTypeAtLocation(expression));
  return oldName(type.symbol);
}

function oldName(symbol: ts.Symbol | undefined): OldName | undefined {
  const [declaration] = symbol?.declarations ?? [];
  if (symbol === undefined || declaration === undefined) return undefined;
  // A member of a class is not a name of the library.
  if (!ts.isSourceFile(declaration.parent)) return undefined;
  const { fileName } = declaration.getSourceFile();
  if (dirname(fileName) !== DECLARATIONS.replaceAll('\\', '/')) return undefined;
  return { library: basename(fileName, '.d.ts') as OldLibrary, name: symbol.name };
}
