import { QuorumScripts } from '../../../../libs/nestjs-locked/dist/modules/redis/quorum/quorum-scripts.js';
import { LockScripts } from '../../../../libs/nestjs-locked/dist/modules/redis/scripts/lock-scripts.js';

const ANY_SETTINGS = { inboxPrefix: 'lock:inbox:', acceptMs: 0, fenceKeepMs: 0, inCluster: false };

const NAMES = new Map(
  [
    ...new LockScripts(ANY_SETTINGS).all,
    ...new QuorumScripts({ inboxPrefix: 'lock:inbox:', fenceKeepMs: 0, youngMs: 0 }).all,
  ].map(({ lua, name }) => [withoutNumbers(lua), name]),
);

/** The names by the texts of scripts, each of which is looked up once. */
const known = new Map<string, string | undefined>();

/** @param lua a script of the library, with any times written into it @returns undefined for other scripts */
export function nameOfScript(lua: string): string | undefined {
  if (!known.has(lua)) known.set(lua, NAMES.get(withoutNumbers(lua)));
  return known.get(lua);
}

function withoutNumbers(lua: string): string {
  return lua.replace(/\d+/g, '');
}
