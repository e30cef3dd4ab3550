/** The bundler writes these in place of Node's global names. */
export { Buffer } from './buffer.js';
export { process } from './process.js';
