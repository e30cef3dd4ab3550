/** The order of one caller, for one piece. */
export interface TrapOrder {
  readonly productId: string;
  /** How often its transaction was begun: more than once if it was restarted. */
  runs: number;
}
