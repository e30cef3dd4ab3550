import { jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { afterTest } from './after-test.js';

/** @returns a function that returns the warnings logged since this call */
export function spyOnWarnings(): () => unknown[] {
  const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => {});
  afterTest(() => warn.mockRestore());
  return () => warn.mock.calls.map(([message]) => message as unknown);
}
