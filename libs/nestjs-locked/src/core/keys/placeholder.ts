/** One `<order.sku>` of a template. */
export interface Placeholder {
  /** As written, with its brackets. */
  readonly text: string;
  /** Its first part: a name, or a position such as `0`. */
  readonly root: string;
  /** The properties from there to the value, or to the list. */
  readonly path: readonly string[];
  /** For `<order.items[].sku>`: the properties from an element of the list to the value. */
  readonly each: readonly string[] | undefined;
}

const ROOT = /^(?:\d+|[\p{ID_Start}$_][\p{ID_Continue}$]*)$/u;
/** The name of a property or header. */
const PROPERTY = /^[\p{ID_Continue}$@-]+$/u;

/** @returns undefined if this is no path */
export function parsePlaceholder(body: string): Placeholder | undefined {
  const [list = '', rest, ...more] = body.split('[]');
  const [root = '', ...path] = list.split('.');
  const each = rest === undefined || rest === '' ? [] : rest.split('.').slice(1);
  const isPath = ROOT.test(root) && [...path, ...each].every((property) => PROPERTY.test(property));
  if (!isPath || more.length > 0 || (rest !== undefined && !/^(?:$|\.)/.test(rest))) {
    return undefined;
  }
  return { text: `<${body}>`, root, path, each: rest === undefined ? undefined : each };
}

/** The placeholder for an expression such as `items[0]?.sku`; undefined if there is none. */
export function placeholderFor(expression: string): Placeholder | undefined {
  return parsePlaceholder(
    expression
      .trim()
      .replace(/^arguments\[(\d+)\]|\.toString\(\)$|\s*:\s*\w+$/, '$1')
      .replaceAll(/[?!](?=[.[]|$)/g, '')
      .replaceAll(/\.?\[(?:(\d+)|'([^']+)'|"([^"]+)")\]/g, '.$1$2$3')
      .replaceAll(/\.?\[\*?\]/g, '[]'),
  );
}
