import { LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { LockInspector } from '../../libs/nestjs-locked/src/core/store/lock-inspector.js';
import type {
  AcquireCommand,
  AcquireReply,
  AdoptCommand,
  AdoptReply,
  LeaveCommand,
  LeaveReply,
  LockStore,
  RecheckCommand,
  RecheckReply,
  ReleaseCommand,
  ReleaseReply,
  RenewCommand,
  RenewReply,
  RequeueCommand,
  RequeueReply,
  StoreListener,
  TakeBackCommand,
  TakeBackReply,
} from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import type { RenewalBackup } from '../../libs/nestjs-locked/src/core/store/renewal-backup.js';
import { settled } from './fake-clock.js';

type Sent =
  | { readonly kind: 'acquire'; readonly command: AcquireCommand; reply(reply: AcquireReply): void }
  | {
      readonly kind: 'together';
      readonly command: AcquireCommand;
      reply(reply: AcquireReply): void;
    }
  | { readonly kind: 'recheck'; readonly command: RecheckCommand; reply(reply: RecheckReply): void }
  | { readonly kind: 'renew'; readonly command: RenewCommand; reply(reply: RenewReply): void }
  | { readonly kind: 'adopt'; readonly command: AdoptCommand; reply(reply: AdoptReply): void }
  | { readonly kind: 'release'; readonly command: ReleaseCommand; reply(reply: ReleaseReply): void }
  | { readonly kind: 'requeue'; readonly command: RequeueCommand; reply(reply: RequeueReply): void }
  | {
      readonly kind: 'leave';
      /** Whether `leave()` sent it, as a last attempt that may take the lock. */
      readonly command: LeaveCommand & { readonly take: boolean };
      reply(reply: LeaveReply): void;
    };

/** A store whose replies the test gives itself, at any time and in any order. */
export class ScriptedStore implements LockStore {
  readonly processId = 'a'.repeat(32);
  readonly commandTimeoutMs = 1_000;
  inspector = { ...noInspector };
  isListening = true;
  readonly listensFor = (): boolean => this.isListening;
  mustConfirmMessages = false;
  backup: RenewalBackup | undefined;
  shareStalls: NonNullable<LockStore['shareStalls']> = async () => ({
    kind: 'shared',
    observed: [],
  });
  listener!: StoreListener;
  readonly #unanswered: Sent[] = [];

  async open(listener: StoreListener): Promise<void> {
    this.listener = listener;
  }

  async close(): Promise<void> {}

  acquire = (command: AcquireCommand) => this.#send<AcquireReply>('acquire', command);
  adopt = (command: AdoptCommand) => this.#send<AdoptReply>('adopt', command);
  recheck = (command: RecheckCommand) => this.#send<RecheckReply>('recheck', command);
  release = (command: ReleaseCommand) => this.#send<ReleaseReply>('release', command);
  requeue = (command: RequeueCommand) => this.#send<RequeueReply>('requeue', command);
  leave = (command: LeaveCommand) => this.#send<LeaveReply>('leave', { ...command, take: true });
  /** A take-back stands for a waiter that leaves, or for a repeated release. */
  takeBack = (commands: readonly TakeBackCommand[]) =>
    commands.map(({ used, ...command }) => {
      const [token] = command.tokens;
      return used === undefined
        ? this.#send<TakeBackReply>('leave', { ...command, take: false })
        : this.#send<TakeBackReply>('release', { ...command, token, used });
    });
  acquireTogether = (commands: readonly AcquireCommand[]) =>
    Promise.all(commands.map((command) => this.#send<AcquireReply>('together', command)));
  renew = (commands: readonly RenewCommand[]) =>
    commands.map((command) => this.#send<RenewReply>('renew', command));

  /** Takes the oldest unanswered command, which must be of this kind. */
  async next<K extends Sent['kind']>(kind: K): Promise<Extract<Sent, { kind: K }>> {
    await settled();
    return this.take(kind);
  }

  /** Does the same as `next`, but at once. */
  take<K extends Sent['kind']>(kind: K): Extract<Sent, { kind: K }> {
    const sent = this.#unanswered.shift();
    if (sent?.kind !== kind)
      throw new Error(`expected ${kind}, but received ${sent?.kind ?? 'nothing'}`);
    return sent as Extract<Sent, { kind: K }>;
  }

  /** The kinds of the commands that the test has not taken yet. */
  async unanswered(): Promise<string[]> {
    await settled();
    return this.#unanswered.map(({ kind }) => kind);
  }

  #send<Reply>(kind: Sent['kind'], command: unknown): Promise<Reply> {
    return new Promise<Reply>((reply) => {
      this.#unanswered.push({ kind, command, reply } as unknown as Sent);
    });
  }
}

/** An inspector of an empty store. */
const noInspector: LockInspector = {
  ping: async () => {},
  evictionPolicy: async () => undefined,
  inspect: async () => undefined,
  list: async function* () {},
  survey: async (patterns) => patterns.map(() => ({ locks: new Map(), isPartial: false })),
  revoke: async () => undefined,
  ask: async () => [],
  answer: async () => {},
};

export const unknown = { kind: 'unknown', cause: new LockStoreError('Redis hangs') } as const;

export function granted(token: string, fence = 100, waiters = 0) {
  return { kind: 'granted', token, fence, blockEnd: fence + 1_000_000, waiters } as const;
}

export function queued(token: string, remainingMs = 30_000, position = 7) {
  return { kind: 'queued', token, position, remainingMs, foreign: false } as const;
}
