import { judgeResult, scenarioAfterLoss } from '../stage/result-after-loss.js';

export const scenario = scenarioAfterLoss({
  title: 'A lost lock, and the work succeeds',
  andThen: 'returns',
  end: () => 'done',
  judge: judgeResult,
});
