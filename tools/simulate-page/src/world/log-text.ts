import type { HistoryLine } from 'check-history';
import type { Reply } from '../../../simulate/dist/server/reply.js';
import type { LogLine } from '../view.js';
import { replyText } from './carried-text.js';
import { shortFence } from './fences.js';

/**
 * How a reader is told of a line of the history; undefined: not at all.
 * @param isLost whether the call that it is of has lost its lock
 */
export function logLine(line: HistoryLine, isLost = false): LogLine | undefined {
  const [text, tone] = textAndTone(line, isLost) ?? [];
  return text === undefined ? undefined : { at: line.at, text, tone: tone ?? 'plain' };
}

/** What others are told, by the first letter of the message. */
const MESSAGES: Readonly<Record<string, string>> = {
  g: 'tells the next that its turn has come',
  w: 'tells the holder that others wait',
};

function textAndTone(
  line: HistoryLine,
  isLost: boolean,
): [text: string, tone?: LogLine['tone']] | undefined {
  switch (line.type) {
    case 'called':
      return [`${line.process} asks for ${line.keys.join(', ')}`];
    case 'entered': {
      const { fences, slots = {} } = line;
      const held = [
        ...Object.entries(fences).map(([key, fence]) => `${key}, fence ${shortFence(fence)}`),
        ...Object.entries(slots).map(([key, slot]) => `${key}, slot ${slot}`),
      ];
      return [`${line.process} holds ${held.join('; ')}`, 'good'];
    }
    case 'left':
      return isLost
        ? [`${line.process} is told that its lock is lost, and stops`, 'bad']
        : [`${line.process} has done its work`, 'quiet'];
    case 'detached':
      return [`${line.process} has detached its lock`, 'good'];
    case 'ended':
      return endText(line);
    case 'ran': {
      const isUsual = ['renew', 'prolong', 'inspect'].includes(line.script);
      const said = line.messages.map(
        ([, message]) => `, ${MESSAGES[message[0] ?? ''] ?? 'tells others'}`,
      );
      const reply = replyText(line.reply as Reply);
      const text = `Redis: ${line.script} for ${line.by} → ${reply}${said.join('')}`;
      return [text, isUsual ? 'quiet' : 'plain'];
    }
    case 'paused':
      return [`${line.process} stands still`, 'fault'];
    case 'continued':
      return [`${line.process} continues`, 'fault'];
    case 'died':
      return [`${line.process} is dead`, 'fault'];
    case 'closed':
      return [`${line.process} has closed`, 'fault'];
    case 'disturbed':
      return [line.what, 'fault'];
    case 'memory full':
      return ['Redis has no memory left', 'fault'];
    case 'taken away':
      return [`An operator takes ${line.key} away`, 'fault'];
    case 'lost data':
    case 'clock set forward':
    case 'clock set back':
      return [`Redis: ${line.type}`, 'fault'];
    case 'calm':
      return ['Nothing is disturbed any more: everybody asks once more', 'quiet'];
    case 'quorum': // the page plays one server
    case 'node away':
    case 'numbers lost':
    case 'quiet network':
    case 'arrived late':
    case 'unspecified':
    case 'assured':
    case 'effect':
    case 'detaches':
      return undefined;
  }
}

function endText({
  process,
  outcome,
  error,
}: Extract<HistoryLine, { type: 'ended' }>): [string, LogLine['tone']?] {
  switch (outcome) {
    case 'done':
      return [`the call of ${process} has ended`, 'quiet'];
    case 'busy':
      return [`${process} has not got it in time`, 'bad'];
    case 'aborted':
      return [`${process} gave up`, 'quiet'];
    case 'not adopted':
      return [`${process} cannot adopt the lock any more`, 'bad'];
    case 'failed':
      return [`${process} is told: ${error ?? 'its call has failed'}`, 'bad'];
  }
}
