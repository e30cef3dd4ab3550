/** Stands in for `node:net`. The simulated server has a name. */
export function isIPv6(host: string): boolean {
  return host.includes(':');
}
