import type { Outcome } from '../scenario.js';
import type { Settled } from './settled.js';

export class OutOfStock extends Error {}

/** Whether the caller got the error that the work has thrown. */
export function judgeError(result: Settled<unknown>): Outcome {
  const holds = result.state === 'rejected' && result.error instanceof OutOfStock;
  const got = result.state === 'rejected' ? result.error.constructor.name : result.state;
  return {
    holds,
    figure: got,
    words: holds
      ? 'The caller got the error of the work.'
      : `The error of the work was replaced${result.state === 'rejected' ? ` by "${result.error.message}"` : ''}, ${result.afterMs} ms later.`,
  };
}

/** Whether the caller got the result of the work, which had been done. */
export function judgeResult(result: Settled<unknown>): Outcome {
  const holds = result.state === 'fulfilled';
  return {
    holds,
    figure: holds
      ? 'the result'
      : result.state === 'rejected'
        ? result.error.constructor.name
        : 'nothing',
    words: holds
      ? 'The caller got the result.'
      : result.state === 'rejected'
        ? `The work was done, and the caller got "${result.error.message}" after ${result.afterMs} ms.`
        : `The work was done, and the caller had no answer after ${result.afterMs} ms.`,
  };
}
