import {
  type Expression,
  type Function as FunctionNode,
  parse,
  type Pattern,
  type PrivateIdentifier,
} from 'acorn';
import type { DecoratedMethod } from './decorated-method.js';

/** One parameter in the source of a method. */
export interface SourceParameter {
  /** Undefined for `{ id }: Order`, which has a position and no name. */
  readonly name: string | undefined;
  readonly isRest: boolean;
  readonly hasDefault: boolean;
  /** As it is written: `id`, `{ sku }`, `quantity = 1`, `...ids`. */
  readonly text: string;
  /** The values that `{ sku, items: [first] }` takes out, by path. */
  readonly parts: readonly ParameterPart[];
}

/** A value that a parameter without a name takes out of its argument. */
export interface ParameterPart {
  readonly name: string;
  /** The properties from the argument to the value; the last one may differ from the name. */
  readonly path: readonly string[];
}

type Parameters = readonly SourceParameter[];

const METHODS_OF_CLASS = new WeakMap<object, ReadonlyMap<string, Parameters>>();

/**
 * Reads a method's parameters from the source of its class, because the method itself may already have been replaced by
 * another decorator with `(...args) =>`. A method that the class source does not list under its name (computed names,
 * object literals) is read from its own source.
 *
 * @returns undefined if neither source can be read
 */
export function readParameters(method: DecoratedMethod): Parameters | undefined {
  return parametersInClass(method) ?? parametersInSource(method.original.toString());
}

/** The same, without reading the method itself, which may be another decorator's wrapper. */
export function parametersInClass({ target, name }: DecoratedMethod): Parameters | undefined {
  const { constructor } = target;
  if (typeof constructor !== 'function' || typeof name === 'symbol') return undefined;
  let methods = METHODS_OF_CLASS.get(constructor);
  if (methods === undefined) {
    methods = methodsOf(parsed(constructor.toString()));
    METHODS_OF_CLASS.set(constructor, methods);
  }
  return methods.get(name);
}

interface Parsed {
  readonly code: string;
  readonly expression: Expression | undefined;
}

function methodsOf({ expression, code }: Parsed): ReadonlyMap<string, Parameters> {
  const methods = new Map<string, Parameters>();
  if (expression?.type !== 'ClassExpression') return methods;
  for (const member of expression.body.body) {
    if (member.type !== 'MethodDefinition' || member.static) continue;
    const name = propertyName(member.key, member.computed);
    if (name !== undefined) methods.set(name, parametersOf(member.value, code));
  }
  return methods;
}

function parametersInSource(source: string): Parameters | undefined {
  const { expression, code } = parsed(`{ ${source} }`);
  const member = expression?.type === 'ObjectExpression' ? expression.properties[0] : undefined;
  if (member?.type === 'Property') return parametersOfFunction(member.value, code);
  const alone = parsed(source);
  return parametersOfFunction(alone.expression, alone.code);
}

function parametersOfFunction(
  method: Expression | undefined,
  code: string,
): Parameters | undefined {
  return method?.type === 'FunctionExpression' || method?.type === 'ArrowFunctionExpression'
    ? parametersOf(method, code)
    : undefined;
}

function parametersOf(method: FunctionNode, code: string): Parameters {
  return method.params.map((parameter) => {
    const isRest = parameter.type === 'RestElement';
    const hasDefault = parameter.type === 'AssignmentPattern';
    const pattern = isRest ? parameter.argument : hasDefault ? parameter.left : parameter;
    return {
      name: pattern.type === 'Identifier' ? pattern.name : undefined,
      isRest,
      hasDefault,
      text: code.slice(parameter.start, parameter.end).replaceAll(/\s+/g, ' '),
      parts: pattern.type === 'Identifier' || isRest ? [] : partsOf(pattern, []),
    };
  });
}

function partsOf(pattern: Pattern, path: readonly string[]): ParameterPart[] {
  switch (pattern.type) {
    case 'Identifier':
      return [{ name: pattern.name, path }];
    case 'AssignmentPattern':
      return partsOf(pattern.left, path);
    case 'ArrayPattern':
      return pattern.elements.flatMap((element, index) =>
        element === null || element.type === 'RestElement'
          ? []
          : partsOf(element, [...path, String(index)]),
      );
    case 'ObjectPattern':
      return pattern.properties.flatMap((property) => {
        if (property.type === 'RestElement') return partsOf(property.argument, path);
        const name = propertyName(property.key, property.computed);
        return name === undefined ? [] : partsOf(property.value, [...path, name]);
      });
    case 'RestElement':
    case 'MemberExpression':
      return [];
  }
}

/** Undefined for a computed name, whose value is not in the source, and for a private one. */
function propertyName(key: Expression | PrivateIdentifier, computed: boolean): string | undefined {
  if (key.type === 'Literal') return String(key.value);
  return key.type === 'Identifier' && !computed ? key.name : undefined;
}

function parsed(source: string): Parsed {
  const code = `(${source}\n)`;
  // The source is parsed as a module first, because only there may a class contain `import.meta` or extend an awaited
  // value, and then as a script, where `await` may be a name.
  for (const sourceType of ['module', 'script'] as const) {
    try {
      const { body } = parse(code, {
        ecmaVersion: 'latest',
        sourceType,
        // A nested class may use a private name of its outer class, which this source does not include.
        checkPrivateFields: false,
      });
      if (body[0]?.type === 'ExpressionStatement') return { code, expression: body[0].expression };
    } catch {
      // The source has syntax unknown to acorn, or is `[native code]`. If the other source type fails too, the caller
      // reports an error that lists the ways out.
    }
  }
  return { code, expression: undefined };
}
