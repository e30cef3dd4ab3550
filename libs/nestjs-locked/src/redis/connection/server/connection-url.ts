import { quoted } from '../../../core/runtime/quoted.js';
import { invalidConnection } from './connection-error.js';

const EXAMPLE = 'redis://localhost:6379';

/** Parameters that mean in a URL what they mean as an option. Every other one would be ignored, or be a string. */
const PARAMETERS = ['db', 'username', 'password', 'family', 'keyPrefix', 'connectionName'];

/** What JavaScript makes of a value that is not set. */
const UNSET = ['undefined', 'null', 'NaN'];

/** A part of an address that is not set, or the variable itself, which nothing has replaced: `${REDIS_HOST}`. */
const UNFILLED = new RegExp(String.raw`(?<=[:/])(?:${UNSET.join('|')})(?=[:/]|$)|\$\{?\w+\}?`);

const UNREADABLE =
  "cannot be read as a URL; it has the form redis://user:password@host:6379/0, with ':', '/', '?', '#', '@' and '%' percent-encoded in user and password, and an IPv6 address in brackets";

/** The URL for a message, without user, password and whatever looks like them. */
export function shownUrl(url: string): string {
  const hidden = url.replace(/^([\w+.-]*:\/\/)?.*@/s, '$1***@');
  return quoted(hidden.replace(/([?&]password=)[^&]*/g, '$1***'));
}

/**
 * Refuses a URL that ioredis would read in another way than its author, or not at all. ioredis ignores a database that
 * is not a number, for instance.
 * @throws LockConfigError
 */
export function assertUrl(url: string): void {
  if (!/^(?:(?:redis|valkey)s?|unix):\/\//.test(url)) {
    throw invalidConnection(
      `${shownUrl(url)} must be a URL such as '${EXAMPLE}', ioredis options, or an ioredis client${adviceFor(url)}`,
    );
  }
  const refuse = (problem: string): never => {
    throw invalidConnection(`${shownUrl(url)} ${problem}`);
  };
  const isSocket = url.startsWith('unix:');
  // The beginning of a password would be read as a port or a host, and its end would be shown.
  if (!isSocket && /^\w+:\/\/[^/?#]*[/?#].*@/s.test(url)) refuse(UNREADABLE);
  const unset = isSocket ? undefined : UNFILLED.exec(withoutUser(url))?.[0];
  if (unset !== undefined) refuse(`contains '${unset}': the variable for that part is not set`);
  const { username, password, hostname, pathname, searchParams, hash } = parsed(url, refuse);
  if (hash !== '')
    refuse("has a '#', and what follows would be ignored; percent-encode it, as %23");
  if (hostname === '' && !isSocket) refuse(`names no host; write ${EXAMPLE} if you mean that`);
  const database = isSocket ? '' : pathname.slice(1);
  const given: Partial<Record<string, string>> = { username, password, db: database };
  for (const [name, value] of searchParams) {
    if (!PARAMETERS.includes(name)) {
      refuse(
        `has the parameter '${name}', which a URL cannot have; pass options: connection: { host, port, … }`,
      );
    }
    const other = given[name];
    if (other && other !== value)
      refuse(`gives ${name} twice, with different values; leave one out`);
  }
  const db = searchParams.get('db') ?? database;
  for (const part of [hostname, username, password, db]) {
    if (UNSET.includes(part)) refuse(`contains '${part}': the variable for that part is not set`);
  }
  if (!/^\d*$/.test(db)) {
    refuse(
      `names the database ${quoted(db)}, which is not a number; end it with a number, as in ${EXAMPLE}/2`,
    );
  }
}

/** The URL without user, password and parameters, which may have any text. */
function withoutUser(url: string): string {
  const [address = ''] = url.split('?');
  return address.replace(/\/\/.*@/s, '//');
}

type Parts = Pick<URL, 'username' | 'password' | 'hostname' | 'pathname' | 'searchParams' | 'hash'>;

/** The parts, with user and password decoded. */
function parsed(url: string, refuse: (problem: string) => never): Parts {
  try {
    // A socket's path takes the place of the host.
    const parts = new URL(url.replace(/^unix:\/\//, 'redis://socket'));
    const { hostname, pathname, searchParams, hash } = parts;
    const [username, password] = [parts.username, parts.password].map(decodeURIComponent);
    return { username, password, hostname, pathname, searchParams, hash } as Parts;
  } catch {
    if (url.includes(',')) {
      return refuse(
        'lists several servers; pass { cluster: [{ host, port }] } for a Redis Cluster, or { sentinels: [{ host, port }], name } for Sentinel',
      );
    }
    return refuse(UNREADABLE);
  }
}

/** What to write instead of a text that is not the URL of a Redis server. */
function adviceFor(text: string): string {
  const advice = (): string | undefined => {
    if (text.trim() === '') return 'it is empty: is its variable set?';
    if (UNSET.includes(text)) return 'the variable is not set';
    if (/^["'`]/.test(text)) return 'remove the quotation marks in it';
    if (/^\s/.test(text)) return 'remove the white space before it';
    if (/^redis/i.test(text) && /sentinel/i.test(text))
      return 'for Sentinel, pass { sentinels: [{ host, port }], name }';
    if (/^redis/i.test(text) && /cluster/i.test(text))
      return 'for a Redis Cluster, pass { cluster: [{ host, port }] }';
    if (/^(?:redis|valkey)s?:\/\//i.test(text)) return 'write its scheme in lower case';
    if (/^https?:/i.test(text)) return 'the locks speak the protocol of Redis, not HTTP';
    if (/^[^/]*@/.test(text)) return 'write redis:// before it';
    if (text.startsWith('/')) return `for a socket, write 'unix://${text}'`;
    if (/^[\w.-]+(?::\d+)?(?:\/\d+)?$/.test(text)) return `write 'redis://${text}'`;
    return undefined;
  };
  const found = advice();
  return found === undefined ? '' : `; ${found}`;
}
