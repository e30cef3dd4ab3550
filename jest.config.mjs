/** All tests: `npm run test:jest -- test/api` runs some of them. */
import library from './jest.library.config.mjs';
import tools from './jest.tools.config.mjs';

export default { ...library, projects: [...library.projects, ...tools.projects] };
