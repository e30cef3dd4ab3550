import type { Outcome, Scenario } from '../scenario.js';

async function outcomeOf(load: () => Promise<object>): Promise<Outcome> {
  try {
    const names = Object.keys(await load());
    return { holds: true, figure: 'loads', words: `${names.length} exports.` };
  } catch (error) {
    const { code } = error as { code?: string };
    return {
      holds: false,
      figure: code ?? 'fails',
      words: `An ES module, such as an application of Nest 12, cannot import it.`,
    };
  }
}

export const scenario: Scenario = {
  title: 'Imported by an ES module',
  workload: '`import` of the package in an application with `"type": "module"`.',
  peers: [
    {
      library: '@anchan828/nest-redlock',
      settings: 'As installed.',
      note: '`require` works.',
      run: () => outcomeOf(() => import('@anchan828/nest-redlock')),
    },
    {
      library: 'nestjs-redlock-universal',
      settings: 'As installed.',
      run: () => outcomeOf(() => import('nestjs-redlock-universal')),
    },
    {
      library: 'murlock',
      settings: 'As installed.',
      run: () => outcomeOf(() => import('murlock')),
    },
    {
      library: '@nestjs-redis/lock',
      settings: 'As installed.',
      run: () => outcomeOf(() => import('@nestjs-redis/lock')),
    },
  ],
  ours: { settings: 'As built.', run: () => outcomeOf(() => import('nestjs-locked')) },
};
