export { ChildProgram, type ChildProgramOptions } from './child-program.js';
export { ProxyLink, TcpProxy } from './tcp-proxy.js';
export { chosenFrom, nameFrom, namesFrom, numberFrom, wholeNumberFrom } from './options.js';
export { markdownTable, textTable } from './tables.js';
export { BASE_COLOURS, colourVariables, escapeMarkup, roundForSvg, svgPicture } from './svg.js';
export { SeededRandom } from './seeded-random.js';
export { newestResults } from './results.js';
