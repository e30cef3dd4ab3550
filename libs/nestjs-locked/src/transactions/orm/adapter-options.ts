import { callable, flag, must, shortText } from '../../core/option.js';
import { dialectName } from '../sql/session-of.js';

/** The name of a connection stands in messages. */
const MAX_NAME_CHARACTERS = 200;

/** The options that all adapters have in common. */
export const ADAPTER_OPTIONS = {
  connectionName: { check: shortText(MAX_NAME_CHARACTERS) },
  dialect: { check: dialectName },
  query: { check: callable },
  survivesDisconnect: { check: flag },
} as const;

/** Whether it can be listened to, as a pool of node-postgres can. */
function emits(value: unknown): boolean {
  return typeof (value as { on?: unknown } | null)?.on === 'function';
}

/** The pool of an adapter that knows what it opens transactions with. */
export const poolOrFalse = must(
  'a pool of node-postgres, or false if the ORM runs on another driver',
  (value) => value === false || emits(value),
);

/** The pool of a library that is not known. */
export const poolOrSequelize = must('a pool of node-postgres, or a Sequelize', (value) => {
  const { connectionManager } = (value ?? {}) as { connectionManager?: unknown };
  return emits(value) || (typeof connectionManager === 'object' && connectionManager !== null);
});
