import { type Expression, type Function as FunctionNode, parse, type Pattern } from 'acorn';
import type { DecoratedMethod } from './decorated-method.js';

/** One parameter in the source of a method. */
export interface SourceParameter {
  /** Undefined for `{ id }: Order`, which has a position and no name. */
  readonly name: string | undefined;
  readonly isRest: boolean;
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
    methods = methodsOf(parseExpression(constructor.toString()));
    METHODS_OF_CLASS.set(constructor, methods);
  }
  return methods.get(name);
}

function methodsOf(source: Expression | undefined): ReadonlyMap<string, Parameters> {
  const methods = new Map<string, Parameters>();
  if (source?.type !== 'ClassExpression') return methods;
  for (const member of source.body.body) {
    if (member.type !== 'MethodDefinition' || member.static) continue;
    const { key, computed } = member;
    if (key.type === 'Literal') methods.set(String(key.value), parametersOf(member.value));
    else if (key.type === 'Identifier' && !computed) {
      methods.set(key.name, parametersOf(member.value));
    }
  }
  return methods;
}

function parametersInSource(source: string): Parameters | undefined {
  const object = parseExpression(`{ ${source} }`);
  const member = object?.type === 'ObjectExpression' ? object.properties[0] : undefined;
  const method = member?.type === 'Property' ? member.value : parseExpression(source);
  return method?.type === 'FunctionExpression' || method?.type === 'ArrowFunctionExpression'
    ? parametersOf(method)
    : undefined;
}

function parametersOf(method: FunctionNode): Parameters {
  return method.params.map((parameter) => {
    const isRest = parameter.type === 'RestElement';
    return { name: nameOf(isRest ? parameter.argument : parameter), isRest };
  });
}

function nameOf(parameter: Pattern): string | undefined {
  const pattern = parameter.type === 'AssignmentPattern' ? parameter.left : parameter;
  return pattern.type === 'Identifier' ? pattern.name : undefined;
}

function parseExpression(source: string): Expression | undefined {
  // The source is parsed as a module first, because only there may a class contain `import.meta` or extend an awaited
  // value, and then as a script, where `await` may be a name.
  for (const sourceType of ['module', 'script'] as const) {
    try {
      const { body } = parse(`(${source}\n)`, {
        ecmaVersion: 'latest',
        sourceType,
        // A nested class may use a private name of its outer class, which this source does not include.
        checkPrivateFields: false,
      });
      if (body[0]?.type === 'ExpressionStatement') return body[0].expression;
    } catch {
      // The source has syntax unknown to acorn, or is `[native code]`. If the other source type fails too, the caller
      // reports an error that lists the ways out.
    }
  }
  return undefined;
}
