import ts from 'typescript';
import { oldNameAt } from '../old-names.js';
import type { Source } from '../source.js';
import {
  canBeInKey,
  constantNumber,
  constantText,
  holdOptions,
  isAsynchronous,
  optionsText,
  quoted,
} from '../syntax.js';
import type { MurlockSettings } from './settings.js';

/** A reason why something is left as it is. */
class Left extends Error {}

/** Turns `@MurLock(5000, 'user.id')` into `@Locked('UserService:update:<user.id>')`. */
export function convertDecorator(
  source: Source,
  decorator: ts.Decorator,
  settings: MurlockSettings,
): void {
  const { checker } = source;
  const method = decorator.parent;
  const call = decorator.expression;
  if (!ts.isCallExpression(call) || oldNameAt(checker, call.expression)?.name !== 'MurLock') return;
  try {
    if (!ts.isMethodDeclaration(method)) throw new Left('it does not stand above a method');
    const { key, options, notes } = locked(source, call, method, settings);
    const written = optionsText(options);
    const text = `@${source.use('Locked')}(${quoted(key)}${written && `, ${written}`})`;
    source.tell('changed', 'murlock', decorator, `${source.textOf(decorator)} → ${text}`);
    for (const note of notes) source.tell('check', 'murlock', decorator, note);
    source.replace(decorator, text);
    for (const names of decoratorsOf(checker, method, 'SetParamNames')) source.remove(names);
  } catch (error) {
    if (!(error instanceof Left)) throw error;
    source.tell('left', 'murlock', decorator, `${source.textOf(decorator)}: ${error.message}`);
  }
}

function locked(
  { checker }: Source,
  call: ts.CallExpression,
  method: ts.MethodDeclaration,
  settings: MurlockSettings,
): { key: string; options: (readonly [string, string])[]; notes: string[] } {
  const [duration, ...others] = call.arguments;
  if (duration === undefined) throw new Left('it has no release time');
  if (call.arguments.some(ts.isSpreadElement)) throw new Left('its key is not written here');
  if (!isAsynchronous(checker, method)) {
    throw new Left('the method returns a plain value; make it async first');
  }
  const { keyPrefix } = settings;
  if (keyPrefix === undefined) {
    throw new Left(
      'it cannot be seen whether its key begins with class and method; pass --key-prefix default or custom, as lockKeyPrefix says at run time',
    );
  }
  const [first] = others;
  const wait = first !== undefined && isWait(checker, first) ? first : undefined;
  const keyParams = wait === undefined ? others : others.slice(1);
  const notes: string[] = [];
  const parts = keyParams.map((keyParam) => {
    const text = constantText(checker, keyParam);
    if (text === undefined) {
      throw new Left(`${keyParam.getText()} is not a constant; write its value into the key`);
    }
    return partOf(text, checker, method, keyPrefix, notes);
  });
  const key = [...(keyPrefix === 'default' ? ownerOf(method) : []), ...parts].join(':');
  if (key === '') throw new Left('its key is empty');
  return {
    key,
    options: [...waitOptions(checker, wait, settings, notes), ...holdOptions(checker, duration)],
    notes,
  };
}

function isWait(checker: ts.TypeChecker, node: ts.Expression): boolean {
  const type = checker.getTypeAtLocation(node);
  return (type.flags & ts.TypeFlags.NumberLike) !== 0 || type.getCallSignatures().length > 0;
}

function waitOptions(
  checker: ts.TypeChecker,
  wait: ts.Expression | undefined,
  { maxAttempts, blocking }: MurlockSettings,
  notes: string[],
): (readonly [string, string])[] {
  if (wait === undefined || blocking === true) return [];
  const each = constantNumber(checker, wait);
  if (each !== undefined && maxAttempts !== undefined && blocking === false) {
    return [['waitMs', String(each * maxAttempts)]];
  }
  notes.push(`its pauses (${wait.getText()}) are gone: set waitMs, how long a call waits in all`);
  return [];
}

function ownerOf(method: ts.MethodDeclaration): string[] {
  const owner = ts.isClassLike(method.parent) ? method.parent.name?.text : undefined;
  if (owner === undefined || !ts.isIdentifier(method.name)) {
    throw new Left('its key begins with the name of a class, which has none here');
  }
  return [owner, method.name.text];
}

/** The part of a key template that one key parameter of murlock becomes. */
function partOf(
  text: string,
  checker: ts.TypeChecker,
  method: ts.MethodDeclaration,
  keyPrefix: 'default' | 'custom',
  notes: string[],
): string {
  const [root = '', ...path] = text.split('.');
  const found = findRoot(root, checker, method);
  if (found === undefined) {
    if (keyPrefix === 'default') {
      throw new Left(`'${root}' is no parameter of ${method.name.getText()}`);
    }
    if (root === '' || /[<>{}]/.test(root)) throw new Left(`'${root}' cannot be in a key`);
    return root;
  }
  const { name, parameter, within } = found;
  const properties = [...within, ...path];
  const placeholder = `<${[name, ...properties].join('.')}>`;
  if (parameter.dotDotDotToken !== undefined)
    throw new Left(`${placeholder} is a list of arguments`);
  const type = typeAt(checker, checker.getTypeAtLocation(parameter), properties);
  if (type !== undefined && !canBeInKey(type)) {
    const shown = checker.typeToString(type);
    throw new Left(
      `${placeholder} is no text or number but ${shown}; name one of its properties, or use a function: @Locked((${parameter.getText()}) => lockKey\`…\${String(…)}\`)`,
    );
  }
  if (parameter.initializer !== undefined) {
    notes.push(
      `a call that leaves ${name} out is refused: the default value is not in the arguments`,
    );
  }
  if (path.length > 1) {
    notes.push(
      `murlock read only '${root}.${path[0]}', so all calls shared one key; now each has its own`,
    );
  }
  return placeholder;
}

interface Root {
  /** What the template calls the parameter. */
  readonly name: string;
  readonly parameter: ts.ParameterDeclaration;
  /** The properties from the parameter to what is named. */
  readonly within: readonly string[];
}

function findRoot(
  root: string,
  checker: ts.TypeChecker,
  method: ts.MethodDeclaration,
): Root | undefined {
  const { parameters } = method;
  const at = (index: number, within: readonly string[] = []): Root | undefined => {
    const parameter = parameters[index];
    if (parameter === undefined) return undefined;
    const { name } = parameter;
    // The name of one letter is what minifiers make, and is refused.
    const isNamed = ts.isIdentifier(name) && name.text === root && root.length > 1;
    return { name: isNamed ? root : String(index), parameter, within };
  };
  if (/^\d+$/.test(root)) {
    const found = at(Number(root));
    if (found === undefined) throw new Left(`${method.name.getText()} has no parameter ${root}`);
    return found;
  }
  const position = givenNames(checker, method).get(root);
  if (position !== undefined) return at(position);
  const named = parameters.findIndex(({ name }) => ts.isIdentifier(name) && name.text === root);
  if (named >= 0) return at(named);
  const [only] = parameters;
  if (parameters.length !== 1 || only === undefined || !ts.isObjectBindingPattern(only.name)) {
    return undefined;
  }
  const has = only.name.elements.some(
    ({ name, propertyName }) => (propertyName ?? name).getText() === root,
  );
  return has ? at(0, [root]) : undefined;
}

/** The positions that `@SetParamNames` gives to names. */
function givenNames(checker: ts.TypeChecker, method: ts.MethodDeclaration): Map<string, number> {
  const names = new Map<string, number>();
  for (const { expression } of decoratorsOf(checker, method, 'SetParamNames')) {
    if (!ts.isCallExpression(expression)) continue;
    expression.arguments.forEach((argument, index) => {
      const text = constantText(checker, argument);
      if (text !== undefined) names.set(text, index);
      if (!ts.isObjectLiteralExpression(argument)) return;
      for (const property of argument.properties) {
        if (!ts.isPropertyAssignment(property)) continue;
        const position = constantNumber(checker, property.initializer);
        if (position !== undefined) names.set(property.name.getText(), position);
      }
    });
  }
  return names;
}

function decoratorsOf(
  checker: ts.TypeChecker,
  method: ts.MethodDeclaration,
  name: string,
): ts.Decorator[] {
  return (ts.getDecorators(method) ?? []).filter(
    ({ expression }) =>
      ts.isCallExpression(expression) && oldNameAt(checker, expression.expression)?.name === name,
  );
}

/** The type of a property; undefined if it is not known. */
function typeAt(
  checker: ts.TypeChecker,
  type: ts.Type,
  path: readonly string[],
): ts.Type | undefined {
  let reached = checker.getNonNullableType(type);
  for (const name of path) {
    const property = reached.getProperty(name);
    if (property === undefined) return undefined;
    reached = checker.getNonNullableType(checker.getTypeOfSymbol(property));
  }
  return reached;
}
