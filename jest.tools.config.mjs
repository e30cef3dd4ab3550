/**
 * All that tests something else than the library, or takes minutes: the tests of the tools and of the sample
 * applications, which are beside them; of the tests' own support; of what is published, that is the public names
 * (`api`), the package and the documents, in projects as users have them (`projects`); the same contract once more for
 * each further library that opens transactions (`orms`); and the runs that take minutes, such as that of the heap over
 * hundreds of thousands of calls (`soak`).
 */
import { availableParallelism, totalmem } from 'node:os';
import library from './jest.library.config.mjs';

const [esm, cjs] = library.projects;

export default {
  ...library,
  // They work more than those of the library, but wait as well: for faults and pauses of torture, or for a server.
  maxWorkers: Math.max(1, Math.min(2 * availableParallelism(), Math.floor(totalmem() / 2 ** 31))),
  projects: [
    {
      ...esm,
      displayName: 'tools',
      testMatch: [
        '<rootDir>/{apps,libs,tools}/*/test/*.spec.ts',
        '<rootDir>/test/{api,orms,projects,soak,support}/*.spec.ts',
      ],
    },
    { ...cjs, displayName: 'tools-cjs', testMatch: ['<rootDir>/test/orms/*.cjs-spec.ts'] },
  ],
};
