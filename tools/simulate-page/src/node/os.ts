/** Stands in for `node:os`; the function is replaced before it is used. */
const os = { hostname: (): string => 'browser' };

export default os;

export function hostname(): string {
  return os.hostname();
}
