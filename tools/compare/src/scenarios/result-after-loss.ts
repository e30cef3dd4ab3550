import { scenarioAfterLoss } from '../stage/after-loss.js';

export const scenario = scenarioAfterLoss({
  title: 'A lost lock, and the work succeeds',
  andThen: 'returns',
  end: () => 'done',
  judge(result) {
    const { afterMs } = result;
    switch (result.state) {
      case 'fulfilled':
        return { holds: true, figure: 'the result', words: 'The caller got the result.' };
      case 'rejected':
        return {
          holds: false,
          figure: result.error.constructor.name,
          words: `The work was done; the caller got "${result.error.message}" after ${afterMs} ms.`,
        };
      case 'pending':
        return {
          holds: false,
          figure: 'nothing',
          words: `The work was done, and the caller had no answer after ${afterMs} ms.`,
        };
    }
  },
});
