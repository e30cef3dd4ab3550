import type { HistoryLine } from 'check-history';
import type { ServerHost } from '../../../simulate/dist/network/server-host.js';
import type { Entry } from '../../../simulate/dist/server/keyspace.js';
import { sorted } from '../../../simulate/dist/server/keyspace.js';
import type { KeyView, ServerView } from '../view.js';
import type { Calls } from './calls.js';
import { shortFence } from './fences.js';

/** The key of a lock in Redis, and those beside it. */
const LOCK = /^lock:\{([^}]+)\}(?::(queue))?$/;

/** That of all keys. */
const FENCE = 'lock:fence';

/** What the server has stored, read from its keys. */
export class ServerWatch {
  /** The processes by the first part of their tokens. */
  readonly #processes = new Map<string, string>();
  /** The longest lease that was seen of each key. */
  readonly #leases = new Map<string, number>();

  constructor(readonly server: ServerHost) {}

  /** Learns which token is whose. */
  hear(line: HistoryLine): void {
    if (line.type !== 'ran') return;
    for (const arg of line.args) {
      const [, id] = /^([0-9a-f]{32}):/.exec(arg) ?? [];
      if (id !== undefined && !this.#processes.has(id)) this.#processes.set(id, line.by);
    }
  }

  /** @param now not before the last event */
  view(now: number): ServerView {
    const { server } = this;
    return {
      state: !server.isUp ? 'down' : server.machine.isPaused ? 'paused' : 'up',
      keys: this.#keys(server.clockMs + now - server.machine.time.now),
      fence: this.#fence,
    };
  }

  /** Draws who has each key. */
  draw(calls: Calls, now: number): void {
    const { keys, state } = this.view(now);
    for (const { key, owner } of keys) {
      const span = { row: key, kind: 'lease', of: owner ?? '' } as const;
      calls.show(`key ${key}`, owner === undefined || state === 'down' ? undefined : span, now);
    }
    const away = { row: 'Redis', kind: 'away', of: '' } as const;
    calls.show('server', state === 'up' ? undefined : away, now);
  }

  /** @param now by the clock of the server */
  #keys(now: number): readonly KeyView[] {
    const stored = new Map<string, Partial<Record<'lock' | 'queue', Entry>>>();
    for (const key of this.#leases.keys()) stored.set(key, {});
    for (const [name, entry] of this.server.model.copy()) {
      const [, key, part = 'lock'] = LOCK.exec(name) ?? [];
      if (key === undefined || entry.expiresAt <= Math.floor(now)) continue;
      stored.set(key, { ...stored.get(key), [part]: entry });
    }
    return [...stored]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, { lock, queue }]) => {
        const leftMs = lock === undefined ? 0 : lock.expiresAt - now;
        const leaseMs = Math.max(leftMs, this.#leases.get(key) ?? 0);
        this.#leases.set(key, leaseMs);
        return {
          key,
          owner: lock === undefined ? undefined : this.#ownerOf(textOf(lock)),
          leftMs,
          leaseMs,
          queue: queueOf(queue).map((token) => this.#ownerOf(token)),
        };
      });
  }

  get #fence(): number | undefined {
    const fence = this.server.model.copy().get(FENCE);
    return fence === undefined ? undefined : shortFence(parseInt(textOf(fence), 10));
  }

  #ownerOf(token: string): string {
    if (token.startsWith('kept:')) return 'kept';
    if (token.startsWith('revoked:')) return 'taken';
    return this.#processes.get(token.split(':')[0] ?? '') ?? token;
  }
}

/** Only queues are sets. */
function textOf({ value }: Entry): string {
  return typeof value === 'string' ? value : 'foreign';
}

function queueOf(queue: Entry | undefined): readonly string[] {
  if (queue === undefined || typeof queue.value === 'string') return [];
  return sorted(queue.value).map(([token]) => token);
}
