export { setUp as default } from './shared-servers.mjs';
