import { judgeError, OutOfStock, scenarioAfterLoss } from '../stage/result-after-loss.js';

export const scenario = scenarioAfterLoss({
  title: 'A lost lock, and the work throws',
  andThen: 'throws its own error',
  end() {
    throw new OutOfStock('none left');
  },
  judge: judgeError,
});
