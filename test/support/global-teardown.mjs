export { tearDown as default } from './shared-servers.mjs';
