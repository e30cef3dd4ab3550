export { provideRedis, type ProvidedRedis } from './provide-redis.js';
export { RedisServer, type RedisServerOptions } from './redis-server.js';
export type { RedisSentinel } from './redis-sentinel.js';
export { RedisReplicaSet, type RedisReplicaSetOptions } from './redis-replica-set.js';
export { RedisCluster, type RedisClusterOptions } from './redis-cluster.js';
export { providePostgres, type ProvidedPostgres } from './provide-postgres.js';
export { PostgresServer, type PostgresServerOptions } from './postgres-server.js';
export { hasMariaDb, provideMariaDb, type ProvidedMariaDb } from './provide-mariadb.js';
export { MariaDbServer, type MariaDbServerOptions } from './mariadb-server.js';
export {
  findMariaDbPrograms,
  findOrInstallMariaDb,
  type MariaDbPrograms,
} from './mariadb-programs.js';
export { findChromium, findOrInstallChromium } from './chromium-program.js';
export { hasMySql, MySqlServer } from './mysql-server.js';
export { isAlive } from './is-alive.js';
export { cleanUpAtExit } from './clean-up.js';
