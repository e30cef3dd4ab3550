/**
 * The settings of all locks of a service, compiled into its scripts, because they would otherwise be sent every time.
 */
export interface ScriptSettings {
  /** Precedes a process id in the name of its inbox. */
  readonly inboxPrefix: string;
  /** The short lease of a grant that a waiter has yet to notice. */
  readonly acceptMs: number;
  /** How far the server's clock may be set back without a fencing token being issued twice by a fence of one lock. */
  readonly fenceKeepMs: number;
  /**
   * Whether the server is a node of a Redis Cluster. A process then has an inbox on each node, whose name ends with the
   * id of the node. A message reaches every node, but only one of them has a listener with that name. So a script that
   * counts the listeners on its own node counts them all.
   */
  readonly inCluster: boolean;
}
