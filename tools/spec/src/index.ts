export { type Deviation, replay } from './replay.js';
