import { OURS } from '../packages.js';
import { played, type Scenario, type Side } from '../scenario.js';

type Load = () => Promise<object>;

const importing = (library: string, load: Load, note?: string): Side<Load> => ({
  library,
  settings: '',
  note,
  open: () => load,
});

export const esModule: Scenario<Load> = {
  title: 'Imported by an ES module',
  repeats: 1,
  workload: '`import` of the package in an application with `"type": "module"`.',
  async play(load) {
    try {
      const names = Object.keys(await load());
      return { holds: true, figure: 'loads', words: names.length === 0 ? 'No exports.' : '' };
    } catch (error) {
      const { code = 'fails' } = error as { code?: string };
      return { holds: false, figure: code, words: 'Applications of Nest 12 are ES modules.' };
    }
  },
  sides: [
    played(
      '✗ ERR_MODULE_NOT_FOUND',
      importing(
        '@anchan828/nest-redlock',
        () => import('@anchan828/nest-redlock'),
        '`require` works.',
      ),
    ),
    ...[
      importing('nestjs-redlock-universal', () => import('nestjs-redlock-universal')),
      importing('murlock', () => import('murlock')),
      importing('@nestjs-redis/lock', () => import('@nestjs-redis/lock')),
      importing('nestjs-simple-redis-lock', () => import('nestjs-simple-redis-lock')),
      importing('redlock', () => import('redlock')),
      importing('redlock4', () => import('redlock4')),
      importing('@sesamecare-oss/redlock', () => import('@sesamecare-oss/redlock')),
      importing('redlock-universal', () => import('redlock-universal')),
      importing('redis-semaphore', () => import('redis-semaphore')),
      importing('node-redisson', () => import('node-redisson')),
      importing('simple-redis-mutex', () => import('simple-redis-mutex')),
      importing('@redis-kit/lock', () => import('@redis-kit/lock')),
      importing(OURS, () => import('nestjs-locked')),
    ].map((side) => played('✓ loads', side)),
  ],
};
