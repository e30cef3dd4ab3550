/** The tests of both other configurations, for what chooses among all of them. */
import library from './jest.config.mjs';
import tools from './jest.tools.config.mjs';

export default { ...library, projects: [...library.projects, ...tools.projects] };
