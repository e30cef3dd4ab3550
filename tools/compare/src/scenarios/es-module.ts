import type { PeerSide, Scenario } from '../scenario.js';

type Load = () => Promise<object>;

const peer = (library: string, load: Load, note?: string): PeerSide<Load> => ({
  library,
  settings: '',
  note,
  open: () => load,
});

export const esModule: Scenario<Load> = {
  title: 'Imported by an ES module',
  workload: '`import` of the package in an application with `"type": "module"`.',
  async play(load) {
    try {
      const names = Object.keys(await load());
      return { holds: true, figure: 'loads', words: `${names.length} exports.` };
    } catch (error) {
      const { code = 'fails' } = error as { code?: string };
      return { holds: false, figure: code, words: 'Applications of Nest 12 are ES modules.' };
    }
  },
  peers: [
    peer('@anchan828/nest-redlock', () => import('@anchan828/nest-redlock'), '`require` works.'),
    peer('nestjs-redlock-universal', () => import('nestjs-redlock-universal')),
    peer('murlock', () => import('murlock')),
    peer('@nestjs-redis/lock', () => import('@nestjs-redis/lock')),
  ],
  ours: { settings: '', open: () => () => import('nestjs-locked') },
};
