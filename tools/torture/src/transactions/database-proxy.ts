import { type ProxyLink, TcpProxy } from 'kit';

/** What can become of a COMMIT on its way to the database and back. */
export const COMMIT_FAULTS = [
  'COMMIT lost',
  'answer to COMMIT lost',
  'COMMIT comes late',
  'COMMIT never arrives',
  'answer to COMMIT never comes',
] as const;
export type CommitFault = (typeof COMMIT_FAULTS)[number];

/** How much later a COMMIT comes whose client has gone: sooner than the lease ends that nobody releases. */
const LATE_MS = 1_500;

/** A statement that is COMMIT, and not the name of an isolation level. */
const COMMIT = /\bCOMMIT\b/;

/** After how long each side gives up a connection on which nothing comes any more. */
export interface DeadMs {
  readonly client: number;
  readonly server: number;
}

/** The way from the processes to the database. The next COMMIT on it can be cut off, or vanish without a word. */
export class DatabaseProxy extends TcpProxy {
  /** How often a COMMIT met each fault. */
  readonly happened: Partial<Record<CommitFault, number>> = {};
  #next: CommitFault | undefined;

  constructor(
    databaseUrl: string,
    private readonly deadMs: DeadMs,
  ) {
    super(databaseUrl);
  }

  disturbNextCommit(fault: CommitFault): void {
    this.#next = fault;
  }

  protected override accept(link: ProxyLink): void {
    link.fromClient = (data) => {
      const fault = this.#next;
      if (fault === undefined || !COMMIT.test(data.toString('latin1'))) return link.toServer(data);
      this.#next = undefined;
      this.happened[fault] = (this.happened[fault] ?? 0) + 1;
      this.#disturb(link, fault, data);
    };
  }

  #disturb(link: ProxyLink, fault: CommitFault, commit: Buffer): void {
    link.fallSilent();
    switch (fault) {
      case 'COMMIT lost':
        return link.cut();
      case 'COMMIT comes late':
        setTimeout(() => link.toServer(commit), LATE_MS).unref();
        link.client.destroy();
        break;
      case 'answer to COMMIT lost':
        link.fromServer = () => link.cut();
        link.toServer(commit);
        break;
      case 'answer to COMMIT never comes':
        link.toServer(commit);
        break;
      case 'COMMIT never arrives':
    }
    setTimeout(() => link.server.destroy(), this.deadMs.server).unref();
    setTimeout(() => link.cut(), this.deadMs.client).unref();
  }
}
