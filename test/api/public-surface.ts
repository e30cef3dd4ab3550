import ts from 'typescript';

const printer = ts.createPrinter({ removeComments: true });

export interface PublicSurface {
  /** Exported names that exist at run time, sorted. */
  readonly values: readonly string[];
  /**
   * Every exported name with its signature, sorted, and below them what signatures mention although it is not
   * exported. Of a class that is not exported, only the name is listed: nobody outside can create or extend one.
   */
  readonly text: string;
}

/** What an entry point promises, read from its emitted declarations: from what users get. */
export function publicSurface(entryFile: string): PublicSurface {
  const program = createProgram(entryFile);
  const checker = program.getTypeChecker();
  const entry = program.getSourceFile(entryFile);
  const module = entry === undefined ? undefined : checker.getSymbolAtLocation(entry);
  if (module === undefined) throw new Error(`${entryFile} is not there: run npm run build`);

  const resolved = (symbol: ts.Symbol): ts.Symbol =>
    symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
  const exported = new Set(checker.getExportsOfModule(module).map(resolved));
  const mentioned = new Set<ts.Symbol>();
  const collectMentions = (symbols: Iterable<ts.Symbol>): void => {
    for (const identifier of [...symbols].flatMap(declarationsOf).flatMap(identifiersIn)) {
      const found = checker.getSymbolAtLocation(identifier);
      const symbol = found === undefined ? undefined : resolved(found);
      if (symbol === undefined || exported.has(symbol) || mentioned.has(symbol)) continue;
      if (!declarationsOf(symbol).some((node) => ts.isSourceFile(node.parent))) continue;
      mentioned.add(symbol);
      if (!isClass(symbol)) collectMentions([symbol]);
    }
  };
  collectMentions(exported);

  const values = [...exported].filter((symbol) => symbol.flags & ts.SymbolFlags.Value);
  const text = [
    '// Exported',
    ...sorted(exported).flatMap((symbol) => declarationsOf(symbol).map(signature)),
    '',
    '// Not exported, but mentioned above',
    ...sorted(mentioned).flatMap((symbol) =>
      isClass(symbol) ? `class ${symbol.name}` : declarationsOf(symbol).map(signature),
    ),
    '',
  ].join('\n');
  return { values: sorted(values).map(({ name }) => name), text };
}

/** Follows imports of our own files only: what other packages declare is printed by name. */
function createProgram(entryFile: string): ts.Program {
  const options: ts.CompilerOptions = { noLib: true, types: [] };
  const host = ts.createCompilerHost(options);
  host.resolveModuleNameLiterals = (literals, containingFile) =>
    literals.map(({ text }) => ({
      resolvedModule: text.startsWith('.')
        ? ts.resolveModuleName(text, containingFile, options, host).resolvedModule
        : undefined,
    }));
  return ts.createProgram([entryFile], options, host);
}

function declarationsOf(symbol: ts.Symbol): ts.Node[] {
  // The statement of a constant is two levels above its name and type.
  return (symbol.declarations ?? []).map((node) =>
    ts.isVariableDeclaration(node) ? node.parent.parent : node,
  );
}

function identifiersIn(node: ts.Node): ts.Identifier[] {
  if (ts.isIdentifier(node)) return [node];
  const children: ts.Node[] = [];
  node.forEachChild((child) => void children.push(child));
  return children.flatMap(identifiersIn);
}

function isClass({ flags }: ts.Symbol): boolean {
  return (flags & ts.SymbolFlags.Class) !== 0;
}

function signature(node: ts.Node): string {
  return printer
    .printNode(ts.EmitHint.Unspecified, node, node.getSourceFile())
    .replace(/^(?:export )?(?:declare )?/, '')
    .replace(/^ +#private;\n/gm, '');
}

function sorted(symbols: Iterable<ts.Symbol>): ts.Symbol[] {
  return [...symbols].sort((a, b) => (a.name < b.name ? -1 : 1));
}
