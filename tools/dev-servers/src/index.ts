export {
  hasMariaDb,
  provideMariaDb,
  type ProvidedMariaDb,
  type ProvidedPostgres,
  type ProvidedRedis,
  providePostgres,
  provideRedis,
} from './provide.js';
export { RedisServer, type RedisServerOptions } from './redis-server.js';
export { faketime } from './server-clock.js';
export type { RedisSentinel } from './redis-sentinel.js';
export { RedisReplicaSet, type RedisReplicaSetOptions } from './redis-replica-set.js';
export { RedisCluster, type RedisClusterOptions } from './redis-cluster.js';
export { PostgresServer, type PostgresServerOptions } from './postgres-server.js';
export {
  hasMySql,
  MariaDbServer,
  type MariaDbServerOptions,
  MySqlServer,
} from './mysql-servers.js';
export {
  findChromium,
  findMariaDbPrograms,
  findOrInstallChromium,
  findOrInstallMariaDb,
  type MariaDbPrograms,
} from './programs.js';
export { isAlive } from './is-alive.js';
export { cleanUpAtExit } from './clean-up.js';
