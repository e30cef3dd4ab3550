import { callable, flag, must, shortText } from '../../core/option.js';
import { dialectName } from '../sql/session-of.js';

/** The longest name of a connection, which appears in messages. */
const MAX_NAME_CHARACTERS = 200;

/** The common options of all adapters. */
export const ADAPTER_OPTIONS = {
  connectionName: { check: shortText(MAX_NAME_CHARACTERS) },
  dialect: { check: dialectName },
  query: { check: callable },
  survivesDisconnect: { check: flag },
} as const;

/** Whether it is an event emitter, like a pool of node-postgres. */
function emits(value: unknown): boolean {
  return typeof (value as { on?: unknown } | null)?.on === 'function';
}

/** Checks the pool of an adapter with a known ORM. */
export const poolOrFalse = must(
  'a pool of node-postgres, or false if the ORM runs on another driver',
  (value) => value === false || emits(value),
);

/** Checks the pool of an unknown library. */
export const poolOrSequelize = must('a pool of node-postgres, or a Sequelize', (value) => {
  const { connectionManager } = (value ?? {}) as { connectionManager?: unknown };
  return emits(value) || (typeof connectionManager === 'object' && connectionManager !== null);
});
