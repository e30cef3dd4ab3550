import { parsePlaceholder } from '../../core/keys/placeholder.js';
import type { SourceParameter } from './parameter-names.js';
import { mayBeRenamed } from './position-of-name.js';

/**
 * Why a name is not bound, and what to write instead, worded to follow the placeholder.
 *
 * @param parameters undefined if the source cannot be read
 * @param bindings the positions of the parameters with a `@KeyParam`, by its name
 */
export function unboundName(
  name: string,
  parameters: readonly SourceParameter[] | undefined,
  bindings: ReadonlyMap<string, number>,
): string {
  const others = `@KeyParam('${name}') on the parameter, or a function`;
  if (parameters === undefined) {
    return `the source of the method cannot be read; use its position such as <0>, ${others}`;
  }
  if (parameters.length === 0) {
    return 'the method has no parameters, and a key is built from them; add one, or use withLock of LockService inside the method';
  }
  const inside = insidePattern(name, parameters);
  if (inside !== undefined) return inside;

  const found = `its parameters are ${shown(parameters, bindings)}`;
  const alike = parameters.flatMap((parameter, position) =>
    parameter.name === name || mayBeRenamed(parameter.name, name) ? [`<${position}>`] : [],
  );
  if (alike.length > 0) {
    return `${found}; a bundler seems to have renamed '${name}', because other code has that name; use its position, ${alike.join(' or ')}, ${others}`;
  }
  if (parameters.every((parameter) => parameter.name?.length === 1)) {
    return `${found}, as a minifier names them; keep parameter names, or use its position such as <0>, ${others}`;
  }
  return `${found}; use one of these names or positions, ${others}`;
}

/** For `<id>` and the parameter `{ id }`. */
function insidePattern(name: string, parameters: readonly SourceParameter[]): string | undefined {
  for (const [position, { parts, text }] of parameters.entries()) {
    const part = parts.find((it) => it.name === name || it.path.at(-1) === name);
    const placeholder = part && parsePlaceholder([position, ...part.path].join('.'));
    if (placeholder === undefined) continue;
    return `it is not a parameter, but a property of <${position}>, which is ${text}; write ${placeholder.text}`;
  }
  return undefined;
}

/** `<0> id, <order> { sku }`: each with its position, or the name of its `@KeyParam`. */
function shown(
  parameters: readonly SourceParameter[],
  bindings: ReadonlyMap<string, number>,
): string {
  const nameAt = new Map([...bindings].map(([name, position]) => [position, name]));
  return parameters
    .map(({ text }, position) => `<${nameAt.get(position) ?? position}> ${text}`)
    .join(', ');
}
