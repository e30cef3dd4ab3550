import ts from 'typescript';

/** The text of a constant: a literal, or a constant or member of an enum whose value the compiler knows. */
export function constantText(checker: ts.TypeChecker, node: ts.Expression): string | undefined {
  if (ts.isStringLiteralLike(node)) return node.text;
  const type = checker.getTypeAtLocation(node);
  return type.isStringLiteral() ? type.value : undefined;
}

export function constantNumber(checker: ts.TypeChecker, node: ts.Expression): number | undefined {
  if (ts.isPrefixUnaryExpression(node) && node.operator === ts.SyntaxKind.MinusToken) {
    const value = constantNumber(checker, node.operand);
    return value === undefined ? undefined : -value;
  }
  if (ts.isNumericLiteral(node)) return Number(node.text.replaceAll('_', ''));
  if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.AsteriskToken) {
    const [left, right] = [node.left, node.right].map((side) => constantNumber(checker, side));
    return left === undefined || right === undefined ? undefined : left * right;
  }
  const type = checker.getTypeAtLocation(node);
  if (type.isNumberLiteral()) return type.value;
  const made = constantAt(checker, node);
  return made === undefined ? undefined : constantNumber(checker, made);
}

/** What a `const` is made of, in whichever file. */
export function constantAt(
  checker: ts.TypeChecker,
  node: ts.Expression,
): ts.Expression | undefined {
  const symbol = checker.getSymbolAtLocation(node);
  if (symbol === undefined) return undefined;
  const isImported = (symbol.flags & ts.SymbolFlags.Alias) !== 0;
  const { valueDeclaration } = isImported ? checker.getAliasedSymbol(symbol) : symbol;
  if (valueDeclaration === undefined || !ts.isVariableDeclaration(valueDeclaration))
    return undefined;
  const isConstant = (ts.getCombinedNodeFlags(valueDeclaration) & ts.NodeFlags.Const) !== 0;
  return isConstant ? valueDeclaration.initializer : undefined;
}

export function constantBoolean(node: ts.Expression): boolean | undefined {
  if (node.kind === ts.SyntaxKind.TrueKeyword) return true;
  return node.kind === ts.SyntaxKind.FalseKeyword ? false : undefined;
}

/** The values of an object literal by their names; undefined if it has anything else. */
export function propertiesOf(node: ts.Expression): Map<string, ts.Expression> | undefined {
  if (!ts.isObjectLiteralExpression(node)) return undefined;
  const properties = new Map<string, ts.Expression>();
  for (const property of node.properties) {
    if (ts.isShorthandPropertyAssignment(property))
      properties.set(property.name.text, property.name);
    else if (ts.isPropertyAssignment(property) && !ts.isComputedPropertyName(property.name)) {
      properties.set(property.name.text, property.initializer);
    } else return undefined;
  }
  return properties;
}

/** `{ waitMs: 0, leaseMs: ttl }`, or nothing if there are no options. */
export function optionsText(options: readonly (readonly [string, string])[]): string {
  if (options.length === 0) return '';
  return `{ ${options.map(([name, value]) => `${name}: ${value}`).join(', ')} }`;
}

/** The options that a duration of the old lock becomes. */
export function holdOptions(
  checker: ts.TypeChecker,
  duration: ts.Expression,
): (readonly [string, string])[] {
  const text = duration.getText();
  const value = constantNumber(checker, duration);
  const isLiteral = value !== undefined && !/[a-z]/i.test(text);
  return [
    // A constant keeps its use, so that nobody finds it without one.
    ...(isLiteral ? [] : [['leaseMs', text] as const]),
    ...(value !== undefined && value > MAX_HOLD_MS ? [['maxHoldMs', text] as const] : []),
  ];
}

/** What the text of a key may not have: braces, and what seems to stand for a value that was not filled in. */
const REFUSED = /[<{}]|\/:[A-Za-z_]|\[object \w+\]/;

/** Whether a key is refused whatever its values are. */
export function isRefusedKey(checker: ts.TypeChecker, key: ts.Expression): boolean {
  return REFUSED.test(textWithValues(checker, key));
}

/** A key with an `x` for each value that is known at run time only. */
function textWithValues(checker: ts.TypeChecker, key: ts.Expression): string {
  if (ts.isTemplateExpression(key)) {
    const rest = key.templateSpans.map(
      ({ expression, literal }) => textWithValues(checker, expression) + literal.text,
    );
    return key.head.text + rest.join('');
  }
  if (ts.isBinaryExpression(key) && key.operatorToken.kind === ts.SyntaxKind.PlusToken) {
    return textWithValues(checker, key.left) + textWithValues(checker, key.right);
  }
  return constantText(checker, key) ?? 'x';
}

/** Our default: work that takes longer loses its lock. */
const MAX_HOLD_MS = 600_000;

/** Whether a key can be built from a value of this type; what the compiler does not know may be one. */
export function canBeInKey(type: ts.Type): boolean {
  const fine =
    ts.TypeFlags.StringLike |
    ts.TypeFlags.NumberLike |
    ts.TypeFlags.BigIntLike |
    ts.TypeFlags.BooleanLike |
    ts.TypeFlags.Any |
    ts.TypeFlags.Unknown |
    ts.TypeFlags.TypeParameter;
  if (type.isUnion()) return type.types.every((part) => isMissing(part) || canBeInKey(part));
  // A branded text is a text.
  if (type.isIntersection()) return type.types.some(canBeInKey);
  return (type.flags & fine) !== 0;
}

function isMissing({ flags }: ts.Type): boolean {
  return (flags & (ts.TypeFlags.Undefined | ts.TypeFlags.Null)) !== 0;
}

/** `'it''s'` as it is written in code. */
export function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

/** Whether what a method returns is waited for: a Promise, an Observable, an async iterable, or unknown. */
export function isAsynchronous(checker: ts.TypeChecker, method: ts.SignatureDeclaration): boolean {
  const signature = checker.getSignatureFromDeclaration(method);
  if (signature === undefined) return false;
  const type = checker.getReturnTypeOfSignature(signature);
  const parts = type.isUnion() ? type.types : [type];
  return parts.every(
    (part) =>
      (part.flags & ts.TypeFlags.Any) !== 0 ||
      part
        .getProperties()
        .some(
          ({ name }) => ['then', 'subscribe'].includes(name) || name.startsWith('__@asyncIterator'),
        ),
  );
}
