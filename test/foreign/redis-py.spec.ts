import { describe } from '@jest/globals';
import { foreignLockCases } from './foreign-lock-cases.js';
import { findPythonWithRedis, RedisPy } from './redis-py.js';

const python = findPythonWithRedis();
const describeIf = python === undefined ? describe.skip : describe;

describeIf(python === undefined ? 'skipped: no redis-py' : 'redis-py', () => {
  foreignLockCases({ start: (url) => new RedisPy(python as string, url), canBeEndless: true });
});
