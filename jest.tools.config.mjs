/**
 * The tests of the tools and of the sample applications, which are beside them, those of the tests' own support, and
 * those that pack the library or build its documents in projects as users have them: they test what is published about
 * the library, not how it works.
 */
import library from './jest.config.mjs';

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
        '<rootDir>/test/{projects,support}/*.spec.ts',
      ],
    },
  ],
};
