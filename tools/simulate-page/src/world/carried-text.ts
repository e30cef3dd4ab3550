import type { Carried } from '../../../simulate/dist/network/link.js';
import type { ModelServer } from '../../../simulate/dist/server/model-server.js';
import { ErrorReply, type Reply } from '../../../simulate/dist/server/reply.js';
import { nameOfScript } from '../../../simulate/dist/server/script-names.js';

/** What is written at a message, and whether it is about a lock. */
export interface CarriedText {
  readonly label: string;
  readonly isTelling: boolean;
}

export function textOf(carried: Carried, model: ModelServer): CarriedText {
  switch (carried.kind) {
    case 'command':
      return commandText(carried.name, carried.args, model);
    case 'reply':
      return { label: replyText(carried.reply), isTelling: isScript(carried.name) };
    case 'message':
      return { label: messageText(carried.text), isTelling: true };
    case 'connect':
    case 'connected':
    case 'refused':
    case 'closed':
      return { label: carried.kind, isTelling: false };
  }
}

function commandText(
  name: string,
  [first = '']: readonly string[],
  model: ModelServer,
): CarriedText {
  if (!isScript(name)) return { label: name.toLowerCase(), isTelling: false };
  const lua = name === 'EVAL' ? first : model.scriptOf(first);
  const script = lua === undefined ? 'script' : (nameOfScript(lua) ?? 'script');
  return { label: script, isTelling: script !== 'probe' };
}

function isScript(name: string): boolean {
  return name === 'EVAL' || name === 'EVALSHA';
}

/** Scripts answer with a word, or with a fencing number if all is well. */
export function replyText(reply: Reply): string {
  if (reply instanceof ErrorReply) return 'error';
  const [first] = Array.isArray(reply) ? (reply as readonly Reply[]) : [reply];
  if (Array.isArray(first)) return first.length === 0 ? 'lost' : 'renewed';
  if (typeof first !== 'string') return 'ok';
  if (/^\d+$/.test(first)) return 'granted';
  return /^[a-z-]+$/.test(first) ? first : 'ok';
}

/** What reaches the inbox of a process: its turn has come, or somebody waits for what it has. */
function messageText(text: string): string {
  if (text.startsWith('g ')) return 'your turn';
  return text.startsWith('w ') ? 'others wait' : 'notice';
}
