import { useMySql } from '../support/databases.js';
import { describeWithMySql } from '../support/describe-if.js';
import { mysqlSuite } from './mysql-suite.js';

describeWithMySql('MySQL', () => mysqlSuite(useMySql));
