import { describeIf } from '../support/describe-if.js';
import { foreignLockCases } from './foreign-lock-cases.js';
import { findPythonWithRedis, RedisPy } from './redis-py.js';

const python = findPythonWithRedis();

describeIf(python !== undefined, 'no redis-py')('redis-py', () => {
  foreignLockCases({ start: (url) => new RedisPy(python as string, url), canBeEndless: true });
});
