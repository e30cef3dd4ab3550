import { type Form, nestjsLocked } from '../adapters/nestjs-locked.js';
import type { Round } from '../measure/fleet.js';
import { ratioOf, spreadOf } from '../measure/statistics.js';
import { CLIENT_CPU, RATE } from './measures.js';
import { columnsOf, type Scenario } from './scenario.js';

const FORMS: readonly { readonly form: Form; readonly name: string }[] = [
  { form: 'acquire', name: 'acquire and release' },
  { form: 'withLock', name: 'withLock' },
  { form: 'locked', name: '@Locked' },
];
const KEYS = Array.from({ length: 64 }, (_, n) => [`forms:${n}`]);

export const forms: Scenario = {
  id: 'forms',
  title: 'acquire, withLock and @Locked',
  what: '64 callers on 64 keys, with each form in turn.',
  isQuick: true,
  async run({ fleet, rounds, pace }) {
    const found: Record<Form, Round[]> = { acquire: [], withLock: [], locked: [] };
    for (let round = -1; round < rounds; round += 1) {
      for (const { form } of round % 2 === 0 ? FORMS : FORMS.toReversed()) {
        const result = await fleet.apart(nestjsLocked, KEYS, { ms: 400 * pace, form });
        if (round >= 0) found[form].push(result);
      }
    }
    const measures = [RATE, CLIENT_CPU];
    const cpu = (form: Form): number[] => found[form].map(CLIENT_CPU.of);
    return {
      columns: columnsOf(measures),
      rows: FORMS.map(({ form, name }) => ({
        name,
        values: Object.fromEntries(
          measures.map(({ id, of }) => [id, spreadOf(found[form].map(of))]),
        ),
      })),
      goals: [
        {
          id: 'forms-with-lock',
          text: 'Client CPU of `withLock`, relative to `acquire` and `release`',
          better: 'lower',
          aim: 1.05,
          value: ratioOf(cpu('withLock'), cpu('acquire')),
        },
        {
          id: 'forms-locked',
          text: 'Client CPU of `@Locked`, relative to `withLock`',
          better: 'lower',
          aim: 1.05,
          value: ratioOf(cpu('locked'), cpu('withLock')),
        },
      ],
    };
  },
};
