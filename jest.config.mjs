/** All tests: `npm run test:jest -- test/api` runs some of them. */
import faults from './jest.faults.config.mjs';
import library from './jest.library.config.mjs';
import tools from './jest.tools.config.mjs';

export default {
  ...library,
  projects: [...library.projects, ...faults.projects, ...tools.projects],
};
