/** The API reference, from the doc comments: a part of `npm run docs`. A public symbol without a comment fails it. */

/** Members whose names say everything, or that the comment on their event explains: of ioredis, and of events. */
const PLAIN = {
  'nestjs-locked.LockEvent.__type': [
    ...['type', 'key', 'error', 'cause', 'holder', 'remainingMs', 'marginMs', 'lateMs', 'leases'],
    ...[
      'by',
      'fencingToken',
      'for',
      'reason',
      'retryInMs',
      'sinceMs',
      'result',
      'ring',
      'outcome',
      'connection',
      'address',
      'node',
      'awaitedMs',
      'awayMs',
      'policy',
    ],
  ],
  'nestjs-locked.RedisClient.options.__type': [
    ...['connectionName', 'db', 'host', 'keyPrefix', 'password', 'port', 'reconnectOnError'],
    ...['sentinels', 'tls'],
  ],
  'nestjs-locked.RedisClient.options.__type.sentinels.__type': ['host', 'port'],
  'nestjs-locked.RedisConnection': [
    ...['connect', 'del', 'disconnect', 'get', 'info', 'on', 'ping', 'scan', 'script'],
    ...['set', 'subscribe', 'unsubscribe'],
  ],
  'nestjs-locked.RedisConnection.stream.__type': ['cork', 'destroy', 'on', 'uncork'],
};

/** @type {Partial<import('typedoc').TypeDocOptions & import('typedoc-plugin-markdown').PluginOptions>} */
export default {
  plugin: ['typedoc-plugin-markdown'],
  entryPoints: [
    'index.ts',
    'testing/index.ts',
    'adapters/nestjs-cls/index.ts',
    'adapters/typeorm/index.ts',
    'transactions/index.ts',
    'opentelemetry/index.ts',
    'terminus/index.ts',
    'dashboard/index.ts',
  ].map((file) => `libs/nestjs-locked/src/${file}`),
  tsconfig: 'libs/nestjs-locked/tsconfig.json',
  skipErrorChecking: true, // the build does that, which every command that makes the site begins with
  out: 'docs/api',
  name: 'API',
  readme: 'docs/.vitepress/api.md',
  mergeReadme: true,
  router: 'member',
  entryFileName: 'index',
  indexFormat: 'table',
  hideBreadcrumbs: true,
  hidePageHeader: true,
  disableSources: true,
  excludeExternals: true,
  groupOrder: ['Functions', 'Classes', 'Interfaces', 'Type Aliases', 'Variables'],
  parametersFormat: 'table',
  classPropertiesFormat: 'table',
  interfacePropertiesFormat: 'table',
  typeAliasPropertiesFormat: 'table',
  typeDeclarationFormat: 'table',
  tableColumnSettings: {
    hideInherited: true,
    hideOverrides: true,
    hideSources: true,
    hideModifiers: true,
  },
  logLevel: 'Warn',
  validation: { notExported: false, invalidLink: true, notDocumented: true },
  requiredToBeDocumented: [
    ...['Class', 'Function', 'Interface', 'TypeAlias', 'Variable'],
    ...['Accessor', 'Method', 'Property'],
  ],
  intentionallyNotDocumented: Object.entries(PLAIN).flatMap(([owner, members]) =>
    members.map((member) => `${owner}.${member}`),
  ),
  treatWarningsAsErrors: true,
};
