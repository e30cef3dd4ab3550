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
      words: `Applications of Nest 12 are ES modules.`,
    };
  }
}

export const scenario: Scenario = {
  title: 'Imported by an ES module',
  workload: '`import` of the package in an application with `"type": "module"`.',
  peers: [
    {
      library: '@anchan828/nest-redlock',
      settings: '',
      note: '`require` works.',
      run: () => outcomeOf(() => import('@anchan828/nest-redlock')),
    },
    {
      library: 'nestjs-redlock-universal',
      settings: '',
      run: () => outcomeOf(() => import('nestjs-redlock-universal')),
    },
    {
      library: 'murlock',
      settings: '',
      run: () => outcomeOf(() => import('murlock')),
    },
    {
      library: '@nestjs-redis/lock',
      settings: '',
      run: () => outcomeOf(() => import('@nestjs-redis/lock')),
    },
  ],
  ours: { settings: '', run: () => outcomeOf(() => import('nestjs-locked')) },
};
