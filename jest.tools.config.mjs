/**
 * The tests of the tools and of the sample applications, which are in `test/` itself, and those that pack the library
 * or compile examples in projects as users have them: they test what is published about the library, not how it works.
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
      testMatch: ['<rootDir>/test/*.spec.ts', '<rootDir>/test/projects/*.spec.ts'],
    },
  ],
};
