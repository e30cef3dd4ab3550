/** Stands in for the two functions of lodash that the interpreter of Lua asks for, of which it needs neither here. */
export function isArray(value: unknown): boolean {
  return Array.isArray(value);
}

export function isPlainObject(value: unknown): boolean {
  return Object.prototype.toString.call(value) === '[object Object]';
}
