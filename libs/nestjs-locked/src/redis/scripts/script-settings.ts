/** What is the same for all locks of a service. It is written into its scripts, because it would be sent every time. */
export interface ScriptSettings {
  /** Precedes a process id in the name of its inbox. */
  readonly inboxPrefix: string;
  /** The short lease of a grant that a waiter must first notice. */
  readonly acceptMs: number;
  /** How far the server's clock may be set back without a fencing token being given out twice. */
  readonly fenceKeepMs: number;
  /**
   * Whether the server is a node of a Redis Cluster. A process then has an inbox on each node, whose name ends with the
   * id of the node. A message reaches every node, but only one of them has a listener of that name. So a script that
   * counts the listeners of its own node counts them all.
   */
  readonly inCluster: boolean;
}
