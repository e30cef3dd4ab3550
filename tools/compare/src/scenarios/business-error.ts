import { scenarioAfterLoss } from '../stage/after-loss.js';

class OutOfStock extends Error {}

export const scenario = scenarioAfterLoss({
  title: 'A lost lock, and the work throws',
  andThen: 'throws its own error',
  end() {
    throw new OutOfStock('none left');
  },
  judge(result) {
    if (result.state !== 'rejected') {
      const words = `The error of the work was replaced, ${result.afterMs} ms later.`;
      return { holds: false, figure: result.state, words };
    }
    const { error, afterMs } = result;
    const holds = error instanceof OutOfStock;
    return {
      holds,
      figure: error.constructor.name,
      words: holds
        ? 'The caller got the error of the work.'
        : `The error of the work was replaced by "${error.message}", ${afterMs} ms later.`,
    };
  },
});
