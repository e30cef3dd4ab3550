import { describe } from '@jest/globals';
import { foreignLockCases } from './foreign-lock-cases.js';
import { NodeRedlock } from './node-redlock.js';

describe('node-redlock', () => {
  foreignLockCases({ start: (url) => new NodeRedlock(url), canBeEndless: false });
});
