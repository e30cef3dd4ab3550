/**
 * Everything but the behaviour of the library: the tests of the tools and of the sample applications, which are beside
 * them; of the tests' own support; of what is published, that is the public names (`api`), the package and the
 * documents, in projects as users have them (`projects`); and the runs that take minutes, such as that of the heap over
 * hundreds of thousands of calls (`soak`).
 */
import library from './jest.library.config.mjs';

const esm = library.projects.find(({ displayName }) => displayName === 'esm');

export default {
  ...library,
  maxWorkers: '100%', // they work more than they wait
  projects: [
    {
      ...esm,
      displayName: 'tools',
      testMatch: [
        '<rootDir>/{apps,tools}/*/test/*.spec.ts',
        '<rootDir>/test/{api,projects,soak,support}/*.spec.ts',
      ],
    },
  ],
};
