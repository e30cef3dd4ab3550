import ts from 'typescript';
import type { Source } from '../source.js';
import { constantBoolean, constantNumber, propertiesOf } from '../syntax.js';
import { moduleOptions } from './settings.js';

type Option = readonly [name: string, value: string];

/** What has no counterpart because ours always behaves so, or never. */
const WITHOUT_COUNTERPART = new Set([
  ...['maxAttempts', 'wait', 'blocking', 'lockKeyPrefix', 'redisOptions', 'client'],
  ...[
    'logLevel',
    'ignoreUnlockFail',
    'autoExtend',
    'extendInterval',
    'reentrant',
    'jitter',
    'encodeKeyParts',
  ],
]);

/**
 * Turns `MurLockModule.forRoot({ … })` into `RedisLockModule.forRoot({ … })`.
 * @returns false if it is one and stays
 */
export function convertModule(source: Source, call: ts.CallExpression): boolean {
  const options = moduleOptions(source.checker, call);
  if (options === undefined || !ts.isPropertyAccessExpression(call.expression)) return true;
  const name = `MurLockModule.${call.expression.name.text}`;
  const leave = (reason: string): false => {
    source.tell('left', 'murlock', call, `${name}: ${reason}`);
    return false;
  };
  const { object, values } = options;
  if (object === undefined || values === undefined || object.getSourceFile() !== source.file) {
    return leave(
      'its options are not written here; write RedisLockModule with connection and waitMs',
    );
  }
  const notes: string[] = [];
  const connection = connectionOf(source, values, notes);
  if (typeof connection !== 'string') return leave(connection.reason);
  const written: Option[] = [['connection', connection], ...waitOf(source, values, notes)];
  for (const option of values.keys()) {
    if (!WITHOUT_COUNTERPART.has(option)) notes.push(`${option} was left out`);
  }
  source.tell('changed', 'murlock', call, `${name} → RedisLockModule.${call.expression.name.text}`);
  for (const note of notes) source.tell('check', 'murlock', call, note);
  source.replace(call.expression.expression, source.use('RedisLockModule'));
  if (!source.isReplaced(object)) source.replace(object, objectText(source, object, written));
  return true;
}

function waitOf(
  { checker }: Source,
  values: ReadonlyMap<string, ts.Expression>,
  notes: string[],
): Option[] {
  const [wait, attempts, blocking] = ['wait', 'maxAttempts', 'blocking'].map((name) =>
    values.get(name),
  );
  if (blocking !== undefined && constantBoolean(blocking) === true) return [['waitMs', 'Infinity']];
  const each = wait && constantNumber(checker, wait);
  const tries = attempts && constantNumber(checker, attempts);
  if (
    each !== undefined &&
    tries !== undefined &&
    (!blocking || constantBoolean(blocking) === false)
  ) {
    // The pauses grow: 1 × wait, 2 × wait, …
    return [['waitMs', String((each * tries * (tries + 1)) / 2)]];
  }
  notes.push(
    'wait, maxAttempts and blocking are read at run time: set waitMs (10 s by default), how long a call waits',
  );
  return [];
}

/** The value of `connection`, or the reason why there is none. */
function connectionOf(
  { checker }: Source,
  values: ReadonlyMap<string, ts.Expression>,
  notes: string[],
): string | { reason: string } {
  const client = values.get('client');
  if (client !== undefined) {
    notes.push('client must be one of ioredis; of node-redis, pass the URL instead');
    return client.getText();
  }
  const given = values.get('redisOptions');
  const redis = given && propertiesOf(given);
  if (redis === undefined) {
    return {
      reason:
        'redisOptions are those of node-redis; write connection: a URL, or options of ioredis',
    };
  }
  const socket = redis.get('socket');
  const sockets = socket === undefined ? new Map<string, ts.Expression>() : propertiesOf(socket);
  if (sockets === undefined) return { reason: 'redisOptions.socket is not written here' };
  const options: Option[] = [];
  const url = redis.get('url');
  for (const [name, expression] of [...redis, ...sockets]) {
    const option = CONNECTION_OPTIONS[name];
    if (option !== undefined) options.push([option, valueOf(name, expression)]);
    else if (name !== 'url' && name !== 'socket')
      notes.push(`${name} of redisOptions was left out`);
  }
  if (url === undefined) {
    return options.length === 0 ? `'${LOCAL}'` : `{ ${options.map(textOf).join(', ')} }`;
  }
  if (options.length === 0) return urlText(checker, url);
  const address = addressIn(url);
  return address === undefined
    ? {
        reason: `put ${options.map(([name]) => name).join(' and ')} into the URL, and pass it as connection`,
      }
    : `{ ${[...address, ...options].map(textOf).join(', ')} }`;
}

/** The options of node-redis, and what ioredis calls them. */
const CONNECTION_OPTIONS: Readonly<Record<string, string>> = {
  username: 'username',
  password: 'password',
  database: 'db',
  host: 'host',
  port: 'port',
  tls: 'tls',
};

function valueOf(name: string, expression: ts.Expression): string {
  return name === 'tls' && constantBoolean(expression) === true ? '{}' : expression.getText();
}

function textOf([name, value]: Option): string {
  return name === value ? name : `${name}: ${value}`;
}

/** Where node-redis connects to if it is not told. */
const LOCAL = 'redis://localhost:6379';

function urlText(checker: ts.TypeChecker, url: ts.Expression): string {
  const type = checker.getTypeAtLocation(url);
  const mayBeMissing = type.isUnion() && checker.getNonNullableType(type) !== type;
  return mayBeMissing ? `${url.getText()} ?? '${LOCAL}'` : url.getText();
}

/** Host and port of `redis://host:port`, where each may be an expression. */
function addressIn(url: ts.Expression): Option[] | undefined {
  if (ts.isStringLiteralLike(url)) {
    const [, host, port = '6379'] = /^redis:\/\/([^:/@?]+)(?::(\d+))?\/?$/.exec(url.text) ?? [];
    return host === undefined
      ? undefined
      : [
          ['host', `'${host}'`],
          ['port', port],
        ];
  }
  if (!ts.isTemplateExpression(url) || url.head.text !== 'redis://') return undefined;
  const [host, port, ...more] = url.templateSpans;
  if (host === undefined || more.length > 0) return undefined;
  const hostText = host.expression.getText();
  if (port !== undefined) {
    return host.literal.text === ':' && /^\/?$/.test(port.literal.text)
      ? [
          ['host', hostText],
          ['port', `Number(${port.expression.getText()})`],
        ]
      : undefined;
  }
  const [, literalPort] = /^:(\d+)\/?$/.exec(host.literal.text) ?? [];
  return literalPort === undefined
    ? undefined
    : [
        ['host', hostText],
        ['port', literalPort],
      ];
}

/** On lines of their own if they were before. */
function objectText(
  source: Source,
  object: ts.ObjectLiteralExpression,
  options: readonly Option[],
): string {
  const text = source.textOf(object);
  const [, indent] = /^\{\r?\n([ \t]*)/.exec(text) ?? [];
  if (indent === undefined) return `{ ${options.map(textOf).join(', ')} }`;
  const [end = '}'] = /\n[ \t]*\}$/.exec(text) ?? [];
  return `{\n${options.map((option) => `${indent}${textOf(option)},`).join('\n')}${end}`;
}
