import { DataSource, type DataSourceOptions } from 'typeorm';
import { afterTest } from '../support/after-test.js';
import type { ConnectionSettings } from '../support/databases.js';

/** Opens a data source. Closed after the test. */
export async function openDataSource(
  type: 'postgres' | 'mysql',
  { host, port, user, password, database }: ConnectionSettings,
  poolSize = 5,
  more: Pick<DataSourceOptions, 'isolationLevel' | 'entities' | 'extra'> = {},
): Promise<DataSource> {
  const options: DataSourceOptions = {
    type,
    host,
    port,
    username: user,
    password,
    database,
    poolSize,
    ...more,
    ...(type === 'mysql' ? { connectorPackage: 'mysql2' as const } : {}),
  };
  const dataSource = await new DataSource(options).initialize();
  afterTest(() => dataSource.destroy());
  return dataSource;
}
